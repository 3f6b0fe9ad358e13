#include "runtime/process_metrics.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/metrics.hpp"

namespace millrace {
namespace {

constexpr const char* version = "0.1.0";  // of the project, as in CMakeLists.txt

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double open_files() {
  std::error_code code;
  const std::filesystem::directory_iterator files("/proc/self/fd", code);
  const auto count = std::distance(begin(files), end(files));
  return count > 0 ? static_cast<double>(count - 1) : 0;  // without the one that reads the folder
}

// Unix seconds: when the machine came up (/proc/stat, btime) plus this process's age then (/proc/self/stat, field 22).
double start_time() {
  double boot = 0;
  std::ifstream machine("/proc/stat");
  for (std::string word; machine >> word;) {
    if (word == "btime") machine >> boot;
  }
  std::ifstream process("/proc/self/stat");
  std::string line;
  std::getline(process, line);
  // The name of the program, field 2, may hold blanks; fields are counted from its closing parenthesis.
  std::size_t at = line.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
  const double ticks = at == std::string::npos ? 0 : std::stod(line.substr(at));
  return boot + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

prometheus::MetricFamily family(const char* name, const char* help, prometheus::MetricType type, double value) {
  prometheus::ClientMetric metric;
  (type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {metric}};
}

}  // namespace

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<prometheus::MetricFamily> process_metrics() {
  using prometheus::MetricType;
  auto build = family("millrace_build_info", "Always 1; its labels say which build this is.", MetricType::Gauge, 1);
  build.metric[0].label = {{"compiler", "g++ " __VERSION__}, {"version", version}};
  return {
      family("process_cpu_seconds_total", "User and system CPU time spent.", MetricType::Counter, cpu_seconds()),
      family("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge,
             static_cast<double>(resident_bytes())),
      family("process_open_fds", "Open file descriptors.", MetricType::Gauge, open_files()),
      family("process_start_time_seconds", "Start of the process, Unix time.", MetricType::Gauge, start_time()),
      build,
  };
}

}  // namespace millrace
