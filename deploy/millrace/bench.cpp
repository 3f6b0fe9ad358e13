#include <sys/resource.h>

#include <cstdio>
#include <iostream>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/bench_flow.hpp"
#include "deploy/millrace/console.hpp"
#include "models/bench.hpp"

namespace millrace {
namespace {

void show(const Figure& figure, bool json) {
  if (json) {
    nlohmann::ordered_json object{{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}};
    object["limit_share"] = figure.limit_share ? nlohmann::ordered_json(*figure.limit_share) : nullptr;
    std::cout << object.dump() << std::endl;
    return;
  }
  char line[120];
  std::snprintf(line, sizeof line, "%-24s %14.6g %-20s", figure.name.c_str(), figure.value, figure.unit.c_str());
  std::cout << line;
  if (figure.limit_share) {
    std::snprintf(line, sizeof line, "%5.1f%% of the limit", 100 * *figure.limit_share);
    std::cout << line;
  }
  std::cout << std::endl;
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

expected<std::vector<Figure>> measure(const BenchCommand& command) {
  if (command.what == "flow") return bench_flow({.sessions = command.sessions});
  use_threads(command.threads > 0 ? command.threads : static_cast<int>(std::thread::hardware_concurrency()));
  auto model = load_model({.path = command.model, .random = {}}, 0);
  if (!model) return tl::unexpected(model.error());
  const bool learns = command.what == "learn";
  const BenchOptions options{.batch = command.batch > 0 ? command.batch
                                      : learns          ? 8
                                                        : 16,
                             .prompt = command.prompt,
                             .tokens = command.tokens > 0 ? command.tokens
                                       : learns           ? 80
                                                          : 64,
                             .dtype = command.dtype,
                             .recompute_activations = command.recompute_activations};
  const MachineLimits limits = measure_limits();
  std::vector<Figure> figures = command.what == "generate"  ? bench_generation(*model, options, limits)
                                : command.what == "publish" ? bench_publishing(*model, options, limits)
                                                            : bench_learning(std::move(*model), options, limits);
  if (learns) figures.push_back({"peak_memory", peak_memory(), "GiB"});
  figures.push_back({"read_memory", limits.read_bytes_per_second / 1e9, "GB/s"});
  figures.push_back({"multiply_float32", limits.float32_flops / 1e9, "GFLOP/s"});
  figures.push_back({"multiply_bfloat16", limits.bfloat16_flops / 1e9, "GFLOP/s"});
  return figures;
}

}  // namespace

int bench(const BenchCommand& command) {
  if (command.what == "learn" && command.dtype == "int8") {
    return complain(bad_use, "--dtype int8: learners compute in float32 or bfloat16");
  }
  std::fprintf(stderr, "measuring, for some seconds\n");
  const auto figures = measure(command);
  if (!figures) return complain(failed, figures.error().message);
  for (const Figure& figure : *figures) show(figure, command.json);
  return done;
}

}  // namespace millrace
