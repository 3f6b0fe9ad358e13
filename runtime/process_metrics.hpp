#pragma once
// What Prometheus' client libraries report of every process, under their usual names, plus which build this is.
// prometheus-cpp has no collector for it.
#include <vector>

#include <prometheus/metric_family.h>

namespace millrace {

// process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, process_start_time_seconds and
// millrace_build_info, as they are now.
std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace millrace
