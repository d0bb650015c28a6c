#include "engine/metrics/process_collector.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace gyre {

namespace {

double ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long total = 0;
  long long resident = 0;
  const int found = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return found == 2 ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE))
                    : 0;
}

double OpenDescriptors() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  int count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count - 3;  // ".", ".." and the directory itself
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

void ProcessCollector::Collect(MetricSink& sink) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  sink.Counter("process_cpu_seconds_total", "CPU time of the process, its kernel's included.", "",
               Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  sink.Gauge("process_resident_memory_bytes", "Memory that is resident.", "", ResidentBytes());
  sink.Gauge("process_open_fds", "Descriptors that are open.", "", OpenDescriptors());
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    sink.Gauge("process_max_fds", "Descriptors at most.", "", static_cast<double>(limit.rlim_cur));
  }
  sink.Gauge("process_start_time_seconds", "When the process began, since the epoch.", "",
             static_cast<double>(start_time_unix_ms_) / 1000);
}

}  // namespace gyre
