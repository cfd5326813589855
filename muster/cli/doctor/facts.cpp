// Everything that is read or asked of the machine, and no opinion: what it means is decided where the facts of all
// hosts are.
#include "muster/cli/doctor/facts.h"

#include <arpa/inet.h>
#include <gnu/libc-version.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/cores.h"
#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/base/version.h"
#include "muster/comm/mpi_transport.h"
#include "muster/compute/threads.h"
#include "muster/control/certificates.h"
#include "muster/control/trust_files.h"
#include "muster/launch/surroundings.h"
#include "muster/trainer/data_agreement.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"
#include "muster/trainer/job_check.h"
#include "muster/trainer/job_fit.h"

namespace muster::cli {
namespace {

std::string place_of(const char* program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder) / program;
    if (::access(file.c_str(), X_OK) == 0) return file.string();
  }
  return {};
}

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_cur : 0;
}

std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> addresses;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      addresses.emplace_back(text);
  }
  ::freeaddrinfo(found);
  return addresses;
}

void look_at_certificates(const std::filesystem::path& folder, MachineFacts& facts) {
  facts.certificate = folder.string();
  try {
    const control::CertificateFiles files = control::read_certificate_files(folder);
    const control::CertificateFacts shown = control::read_certificate(files.certificate, folder.string());
    if (shown.identity) facts.certificate = fmt::format("{} {}", to_string(shown.identity->role), shown.identity->name);
    const control::WallTime now = system_clock().wall();
    facts.certificate_days = std::chrono::duration<double>(shown.life.end - now).count() / 86400;
    facts.certificate_wrong =
        control::judge_certificate(files.certificate, files.authorities, now, control::CertificateUse::kClient).reason;
  } catch (const Error& error) {
    facts.certificate_wrong = error.what();
  }
}

void look_at_job(const std::filesystem::path& file, const std::vector<std::string>& assignments, MachineFacts& facts) {
  facts.job = file.string();
  try {
    const trainer::ResolvedJob resolved = trainer::load_job(file, assignments);
    facts.job = resolved.job.name;
    facts.job_workers = resolved.job.parallel.workers.most;
    facts.job_threads = resolved.job.threads;
    const trainer::Datasets sets = trainer::open_data(resolved);
    for (const trainer::PrintedInput& input : trainer::print_data(resolved.job, sets))
      facts.data[input.place.empty() ? input.what : fmt::format("{} ({})", input.what, input.place)] = input.print;
    facts.job_doubts = trainer::check_job(resolved, sets).doubts;
  } catch (const Error& error) {
    facts.job_wrong = error.message() + (error.where().empty() ? "" : " (" + error.where() + ")");
    facts.job_remedy = error.remedy();
  }
}

}  // namespace

MachineFacts collect_facts(const FactsOptions& options) {
  MachineFacts facts;
  facts.host = options.host.empty() ? host_name() : options.host;
  facts.muster = version();
  facts.kernels = compute::compute_libraries().kernels;
  facts.c_library = fmt::format("glibc {}", ::gnu_get_libc_version());
  utsname names{};
  if (::uname(&names) == 0) facts.kernel = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  launch::Surroundings around;
  try {
    around = launch::detect_surroundings();
  } catch (const Error&) {
    // Variables that make no sense: who starts a job is told.
  }
  const Cores cores = usable_cores(around.cores);
  facts.cores = cores.usable;
  facts.cores_reason = fmt::format("{}; {}", cores.reason, cores.limits);
  facts.machine_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  double load = 0;
  if (::getloadavg(&load, 1) == 1) facts.load = load;
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.processes = limit_of(RLIMIT_NPROC);
  const Memory memory = launch::memory_in(around);
  facts.memory = memory.usable_bytes;
  facts.memory_reason = memory.reason;
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) == 0)
    facts.shared_memory = static_cast<std::uint64_t>(shared.f_bavail) * shared.f_frsize;
  facts.own_addresses = addresses_of(host_name());
  if (comm::mpi_available()) facts.mpi = comm::mpi_library();
  facts.mpirun = place_of("mpirun");
  facts.slurm = place_of("sinfo");
  if (const char* const job = std::getenv("SLURM_JOB_ID")) facts.slurm_job = job;
  if (!options.certificates.empty()) look_at_certificates(options.certificates, facts);
  if (options.job) look_at_job(*options.job, options.assignments, facts);
  return facts;
}

Json to_json(const MachineFacts& f) {
  return {{"host", f.host},
          {"muster", f.muster},
          {"torch", f.kernels.torch},
          {"blas_kernels", f.kernels.blas},
          {"aten_kernels", f.kernels.aten},
          {"kernel", f.kernel},
          {"c_library", f.c_library},
          {"cores", f.cores},
          {"cores_reason", f.cores_reason},
          {"machine_cores", f.machine_cores},
          {"load", f.load},
          {"open_files", f.open_files},
          {"processes", f.processes},
          {"memory", f.memory},
          {"memory_reason", f.memory_reason},
          {"shared_memory", f.shared_memory},
          {"own_addresses", f.own_addresses},
          {"mpi", f.mpi},
          {"mpirun", f.mpirun},
          {"slurm", f.slurm},
          {"slurm_job", f.slurm_job},
          {"certificate", f.certificate},
          {"certificate_wrong", f.certificate_wrong},
          {"certificate_days", f.certificate_days},
          {"job", f.job},
          {"job_wrong", f.job_wrong},
          {"job_remedy", f.job_remedy},
          {"job_workers", f.job_workers},
          {"job_threads", f.job_threads},
          {"job_doubts", f.job_doubts},
          {"data", f.data},
          {"probe", f.probe}};
}

MachineFacts facts_from(const Json& json, const std::string& where) {
  MachineFacts f;
  const auto get = [&](const char* name, auto& value) {
    try {
      json.at(name).get_to(value);
    } catch (const Json::exception& error) {
      throw Error(ErrorKind::kDamaged, fmt::format("\"{}\": {}", name, error.what()), where);
    }
  };
  get("host", f.host);
  get("muster", f.muster);
  get("torch", f.kernels.torch);
  get("blas_kernels", f.kernels.blas);
  get("aten_kernels", f.kernels.aten);
  get("kernel", f.kernel);
  get("c_library", f.c_library);
  get("cores", f.cores);
  get("cores_reason", f.cores_reason);
  get("machine_cores", f.machine_cores);
  get("load", f.load);
  get("open_files", f.open_files);
  get("processes", f.processes);
  get("memory", f.memory);
  get("memory_reason", f.memory_reason);
  get("shared_memory", f.shared_memory);
  get("own_addresses", f.own_addresses);
  get("mpi", f.mpi);
  get("mpirun", f.mpirun);
  get("slurm", f.slurm);
  get("slurm_job", f.slurm_job);
  get("certificate", f.certificate);
  get("certificate_wrong", f.certificate_wrong);
  get("certificate_days", f.certificate_days);
  get("job", f.job);
  get("job_wrong", f.job_wrong);
  get("job_remedy", f.job_remedy);
  get("job_workers", f.job_workers);
  get("job_threads", f.job_threads);
  get("job_doubts", f.job_doubts);
  get("data", f.data);
  get("probe", f.probe);
  return f;
}

}  // namespace muster::cli
