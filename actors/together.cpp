#include "actors/together.hpp"

#include <xxhash.h>

#include "config/load.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

// What has to be the same for all replicas to take the same step.
std::uint64_t digest_of(const Settings& settings, const Model& model) {
  const nlohmann::json all = to_json(settings);
  nlohmann::json shared = {{"replicas", settings.replicas.count}, {"weights", checksum_of(*model.weights)}};
  for (const char* key : {"recipe", "seed", "grouping", "baseline", "trust_region", "loss", "policy", "value"}) {
    shared[key] = all.at(key);
  }
  // Each has GPUs of its own, but Gloo and NCCL do not understand each other.
  for (const char* learner : {"policy", "value"}) {
    auto& device = shared[learner].at("device");
    device = device.get<std::string>() == "cpu" ? "cpu" : "gpu";
  }
  const std::string text = shared.dump();
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

expected<Together> come_together(const Settings& settings, const Model& model) {
  Together together;
  if (settings.replicas.count == 1) return together;
  log_info("service", "waits for " + std::to_string(settings.replicas.count - 1) + " other replicas at " +
                          settings.replicas.address);
  const expected<Replicas> replicas = Replicas::join(settings.replicas);
  if (!replicas) return tl::unexpected(replicas.error());
  for (const auto& [name, channel, device] : {std::tuple{"start", &together.start, std::string("cpu")},
                                              {"value", &together.value, settings.value.device},
                                              {"policy", &together.policy, settings.policy.device}}) {
    auto opened = replicas->open(name, device);
    if (!opened) return tl::unexpected(opened.error());
    *channel = std::move(*opened);
  }
  const auto told = together.in_step([&](const Gather& gather) -> expected<std::vector<std::int64_t>> {
    return gather(static_cast<std::int64_t>(digest_of(settings, model)));
  });
  if (!told) return tl::unexpected(told.error());
  for (std::size_t rank = 0; rank < told->size(); ++rank) {
    if (told->at(rank) != told->front()) {
      return fail("replica " + std::to_string(rank) +
                  " and replica 0 cannot learn together: they differ in the model, "
                  "the seed, or in grouping, baseline, trust_region, loss, policy or value");
    }
  }
  log_info("service", "learns together with " + std::to_string(settings.replicas.count - 1) + " other replicas");
  return together;
}

}  // namespace millrace
