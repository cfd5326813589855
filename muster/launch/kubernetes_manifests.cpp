// Written as JSON values in YAML's block style, through one small writer, so that nothing has to be quoted by hand:
// every text is a JSON string, which YAML reads as it is.
#include "muster/launch/kubernetes_manifests.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

constexpr int kPort = 7400;
constexpr std::size_t kLongestKubernetesName = 50;  // pods get an index and some letters more, 63 in all
constexpr int kUser = 1000;

// `value` as YAML, `depth` levels in; ends with a line break.
void write_yaml(std::string& out, const Json& value, int depth, bool in_list = false) {
  const std::string margin(static_cast<std::size_t>(depth) * 2, ' ');
  const auto write_value = [&](const Json& inner) {
    if ((inner.is_object() || inner.is_array()) && !inner.empty()) {
      out += "\n";
      write_yaml(out, inner, depth + 1);
    } else {
      out += fmt::format(" {}\n", inner.dump());
    }
  };
  bool first = true;
  if (value.is_array()) {
    for (const Json& item : value) {
      out += margin + "-";
      if (item.is_object() && !item.empty()) {
        out += " ";
        write_yaml(out, item, depth + 1, true);
      } else {
        out += fmt::format(" {}\n", item.dump());
      }
    }
    return;
  }
  for (const auto& [key, inner] : value.items()) {
    out += (in_list && first ? "" : margin) + key + ":";
    first = false;
    write_value(inner);
  }
}

void require_name(const std::string& name) {
  const bool fits = !name.empty() && name.size() <= kLongestKubernetesName && name.front() != '-' &&
                    name.back() != '-' && std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
                    std::ranges::all_of(
                        name, [](unsigned char c) { return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-'; });
  if (!fits)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no name for Kubernetes", excerpt(name)), {},
                fmt::format("--name NAME: lower-case letters, digits and -, at most {}.", kLongestKubernetesName));
}

Json labels(const KubernetesJob& job) {
  return {{"app.kubernetes.io/name", "muster"}, {"app.kubernetes.io/instance", job.name}};
}

Json metadata(const KubernetesJob& job, const std::string& suffix = {}) {
  return {{"name", job.name + suffix}, {"labels", labels(job)}};
}

Json secret(const KubernetesJob& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", metadata(job, "-certs")},
          {"type", "Opaque"},
          {"stringData",
           {{"ca.crt", job.coordinator.authorities},
            {"coordinator.crt", job.coordinator.certificate},
            {"coordinator.key", job.coordinator.key},
            {"agent.crt", job.agent.certificate},
            {"agent.key", job.agent.key}}}};
}

Json variables(const KubernetesJob& job) {
  const auto variable = [](const char* name, const std::string& value) {
    return Json{{"name", name}, {"value", value}};
  };
  const Json index{
      {"name", "MUSTER_NODE"},
      {"valueFrom",
       {{"fieldRef", {{"fieldPath", "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}}}};
  return Json::array({variable("MUSTER_NODES", std::to_string(job.hosts)), index,
                      variable("MUSTER_COORDINATOR", fmt::format("{0}-0.{0}:{1}", job.name, kPort)),
                      variable("MUSTER_CERTS", "/tmp/certs"), variable("MUSTER_MEETING", job.name)});
}

Json mounts(const KubernetesJob& job) {
  const auto mount = [](const char* name, const char* path, bool read_only) {
    return Json{{"name", name}, {"mountPath", path}, {"readOnly", read_only}};
  };
  Json all = Json::array({mount("job", "/job", true), mount("certs", "/certs", true), mount("runs", "/runs", false),
                          mount("tmp", "/tmp", false)});
  if (!job.data.empty()) all.push_back(mount("data", "/data", true));
  return all;
}

Json volumes(const KubernetesJob& job) {
  const auto item = [](const char* key, const char* path) { return Json{{"key", key}, {"path", path}}; };
  const Json certs{
      {"secretName", job.name + "-certs"},
      {"defaultMode", 0440},
      {"items", Json::array({item("ca.crt", "coordinator/ca.crt"), item("coordinator.crt", "coordinator/cert.crt"),
                             item("coordinator.key", "coordinator/cert.key"), item("ca.crt", "agent/ca.crt"),
                             item("agent.crt", "agent/cert.crt"), item("agent.key", "agent/cert.key")})}};
  Json runs{{"name", "runs"}};
  if (job.claim.empty())
    runs["emptyDir"] = Json::object();
  else
    runs["persistentVolumeClaim"] = {{"claimName", job.claim}};
  Json all = Json::array({Json{{"name", "job"}, {"configMap", {{"name", job.name}}}},
                          Json{{"name", "certs"}, {"secret", certs}}, runs,
                          Json{{"name", "tmp"}, {"emptyDir", Json::object()}}});
  if (!job.data.empty())
    all.push_back({{"name", "data"}, {"persistentVolumeClaim", {{"claimName", job.data}, {"readOnly", true}}}});
  return all;
}

Json container(const KubernetesJob& job) {
  // Keys that others than their owner may read are refused: the copies belong to the pod's user.
  const std::string command =
      "umask 077 && cp -rL /certs /tmp/certs && cd /runs && exec muster train /job/job.toml --set job.runs=/runs";
  const Json amount{{"cpu", std::to_string(job.cores)},
                    {"memory", fmt::format("{}Mi", (job.memory_bytes + (1 << 20) - 1) >> 20)}};
  return {
      {"name", "muster"},
      {"image", job.image},
      {"command", Json::array({"sh", "-c", command})},
      {"env", variables(job)},
      {"ports", Json::array({Json{{"name", "cluster"}, {"containerPort", kPort}}})},
      {"resources", {{"requests", amount}, {"limits", {{"memory", amount["memory"]}}}}},
      {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", Json::array({"ALL"})}}}}},
      {"volumeMounts", mounts(job)}};
}

Json pod(const KubernetesJob& job) {
  const Json spread{{"maxSkew", 1},
                    {"topologyKey", "kubernetes.io/hostname"},
                    {"whenUnsatisfiable", "ScheduleAnyway"},
                    {"labelSelector", {{"matchLabels", labels(job)}}}};
  return {{"subdomain", job.name},
          {"restartPolicy", "Never"},
          {"terminationGracePeriodSeconds", job.grace_seconds},
          {"automountServiceAccountToken", false},
          {"securityContext", {{"runAsUser", kUser}, {"runAsNonRoot", true}, {"fsGroup", kUser}}},
          {"topologySpreadConstraints", Json::array({spread})},
          {"containers", Json::array({container(job)})},
          {"volumes", volumes(job)}};
}

Json indexed_job(const KubernetesJob& job) {
  // An eviction is the loss of a host, not a failure of the job: it counts against nothing.
  const Json on_disruption{{"action", "Ignore"},
                           {"onPodConditions", Json::array({Json{{"type", "DisruptionTarget"}, {"status", "True"}}})}};
  const Json on_mistake{
      {"action", "FailJob"},
      {"onPodConditions", Json::array()},
      {"onExitCodes", {{"containerName", "muster"}, {"operator", "In"}, {"values", Json::array({2})}}}};
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", metadata(job)},
          {"spec",
           {{"completionMode", "Indexed"},
            {"completions", job.hosts},
            {"parallelism", job.hosts},
            {"backoffLimit", 3 * job.hosts},
            {"podFailurePolicy", {{"rules", Json::array({on_disruption, on_mistake})}}},
            {"template", {{"metadata", {{"labels", labels(job)}}}, {"spec", pod(job)}}}}}};
}

Json service(const KubernetesJob& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata(job)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", labels(job)},
            {"ports", Json::array({Json{{"name", "cluster"}, {"port", kPort}, {"targetPort", "cluster"}}})}}}};
}

}  // namespace

std::string kubernetes_name(const std::string& text) {
  std::string name;
  for (const unsigned char c : text)
    name += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  return name;
}

std::string kubernetes_manifests(const KubernetesJob& job) {
  require_name(job.name);
  const Json config{
      {"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", metadata(job)}, {"data", {{"job.toml", job.job}}}};
  std::string out;
  for (const Json& object : {secret(job), config, service(job), indexed_job(job)}) {
    out += "---\n";
    write_yaml(out, object, 0);
  }
  return out;
}

std::string containerfile() {
  return R"(# Muster from its source tree, in which it is built: podman build -f Containerfile -t REGISTRY/muster .
FROM debian:12
COPY . /muster
RUN cd /muster && ./musterw info && ./musterw install /usr/local && rm -rf /muster/build /var/lib/apt/lists/* && \
    useradd --uid 1000 muster
USER 1000
)";
}

}  // namespace muster::launch
