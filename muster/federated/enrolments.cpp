// Lines are added and never changed. A line counts when its line break is there, and is followed by an fsync before
// anybody is told of it.
#include "muster/federated/enrolments.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/federated/is_there.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostEnrolmentBytes = 256 << 20;
constexpr std::size_t kLongestClientName = 64;
constexpr const char* kClientNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

}  // namespace

bool is_client_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestClientName && name != "." && name != ".." &&
         name.find_first_not_of(kClientNameCharacters) == std::string_view::npos;
}

Enrolments::Enrolments(std::filesystem::path path, std::uint64_t most) : path_(std::move(path)), most_(most) {
  read();
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file_.valid()) throw_system_error("cannot open", path_);
}

void Enrolments::read() {
  if (!is_there(path_)) return;
  const std::string text = read_text(path_, kMostEnrolmentBytes);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    std::uint64_t number = 0;
    const auto [rest, wrong] = std::from_chars(line.data(), line.data() + line.size(), number);
    const auto digits = static_cast<std::size_t>(rest - line.data());
    const std::string name(line.substr(std::min(digits + 1, line.size())));
    if (wrong != std::errc() || !is_client_name(name) || names_.contains(number) || numbers_.contains(name))
      throw Error(ErrorKind::kDamaged, fmt::format("has a line that is none: \"{}\"", excerpt(line, 80)),
                  path_.string(), "It says which client has which number: take it from a copy, or begin a new run.");
    names_.emplace(number, name);
    numbers_.emplace(name, number);
    begin = end + 1;
  }
  if (whole < text.size()) std::filesystem::resize_file(path_, whole);
}

std::optional<std::uint64_t> Enrolments::number_of(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t Enrolments::enrol(const std::string& name, std::optional<std::uint64_t> wanted) {
  if (!is_client_name(name))
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no name of a client", excerpt(name, 80)), {},
                "Use letters, digits and -._ , at most 64 of them.");
  if (const auto number = number_of(name)) {
    if (wanted && *wanted != *number)
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} is client {} of this run", name, *number), {},
                  fmt::format("Ask for that number, or for none, instead of {}.", *wanted));
    return *number;
  }
  if (wanted && *wanted >= most_)
    throw Error(ErrorKind::kInvalidInput, fmt::format("there is no client {}: the job is for {}", *wanted, most_), {},
                "Numbers begin at 0; federated.clients says how many there are.");
  if (wanted && names_.contains(*wanted))
    throw Error(ErrorKind::kInvalidInput, fmt::format("client {} is {}", *wanted, names_.at(*wanted)), {},
                "Ask for another number, or for none.");
  while (names_.contains(lowest_free_))
    ++lowest_free_;
  const std::uint64_t number = wanted.value_or(lowest_free_);
  if (number >= most_)
    throw Error(ErrorKind::kInvalidInput, fmt::format("all {} clients of the job have enrolled", most_), {},
                "Raise federated.clients in a new run.");
  add(number, name);
  return number;
}

void Enrolments::add(std::uint64_t number, const std::string& name) {
  const std::string line = fmt::format("{} {}\n", number, name);
  const auto end = ::lseek(file_.get(), 0, SEEK_END);
  const ssize_t written = ::write(file_.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size()) || ::fdatasync(file_.get()) != 0) {
    const int reason = errno;
    if (end >= 0 && ::ftruncate(file_.get(), end) != 0) file_ = FileDescriptor();  // half a line stays: nobody adds
    errno = written >= 0 && written < static_cast<ssize_t>(line.size()) ? ENOSPC : reason;
    throw_system_error("cannot write", path_);
  }
  names_.emplace(number, name);
  numbers_.emplace(name, number);
}

}  // namespace muster::federated
