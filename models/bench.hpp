#pragma once
// How fast models/ is on this machine, next to what the machine allows: `millrace bench generate|learn|publish`.
#include <optional>
#include <string>
#include <vector>

#include "models/machine_limits.hpp"
#include "models/model.hpp"

namespace millrace {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> limit_share = {};  // of what the machine's limits allow; none: no limit is meant
};

struct BenchOptions {
  int batch = 16;   // turns or trajectories
  int prompt = 32;  // tokens of each turn's prompt
  int tokens = 64;  // new tokens a turn, or tokens a trajectory, half of which are trained
  std::string dtype = "auto";
  bool recompute_activations = false;  // of learning
};

// Prompts, then `tokens` decode steps of `batch` turns. The limit of a step is the longer of two times: that of reading
// the weights and the cache once, and that of the arithmetic.
std::vector<Figure> bench_generation(const Model& model, const BenchOptions& options, const MachineLimits& limits);

// Both learners over one batch: forward, backward and the optimizer's step. The limit is that of the matrix products
// alone, two operations a weight and token forward and four backward. Takes the model, so that what is held is what
// learners hold: in a service, the model `reference` keeps the loaded weights beside them.
std::vector<Figure> bench_learning(Model model, const BenchOptions& options, const MachineLimits& limits);

// What a new version costs the generator between two decode steps, and what preparing it costs its publisher.
std::vector<Figure> bench_publishing(const Model& model, const BenchOptions& options, const MachineLimits& limits);

}  // namespace millrace
