#include "tools/load/environment.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gyre::load {
namespace {

// The number after `label` in a file of "label: number …" lines; 0 when there is none.
int64_t NumberIn(const std::string& path, absl::string_view line_start, size_t word) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, line_start)) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t number = 0;
    if (word < words.size() && absl::SimpleAtoi(words[word], &number)) return number;
  }
  return 0;
}

int64_t ResidentBytes(absl::string_view process) {
  return NumberIn(absl::StrCat("/proc/", process, "/status"), "VmRSS:", 1) * 1024;
}

}  // namespace

std::string DescribeMachine() {
  std::string model = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    model = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    break;
  }
  utsname names = {};
  uname(&names);
  return absl::StrCat(std::thread::hardware_concurrency(), " x ", model, ", ", names.sysname, " ",
                      names.release);
}

Memory SampleMemory(int32_t server_pid) {
  Memory memory;
  memory.client_bytes = ResidentBytes("self");
  if (server_pid > 0) memory.server_bytes = ResidentBytes(absl::StrCat(server_pid));
  // TCP: inuse N orphan N tw N alloc N mem PAGES
  memory.kernel_tcp_bytes = NumberIn("/proc/net/sockstat", "TCP:", 10) * sysconf(_SC_PAGESIZE);
  return memory;
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Status RaiseDescriptorLimit(int64_t connections) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t wanted = static_cast<rlim_t>(connections) + 64;
  if (limit.rlim_cur >= wanted) return absl::OkStatus();
  if (limit.rlim_max < wanted) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--connections: ", connections, " need ", wanted,
                     " file descriptors, and the hard limit is ", limit.rlim_max, " (ulimit -Hn)"));
  }
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (file.bad()) return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  return lines;
}

}  // namespace gyre::load
