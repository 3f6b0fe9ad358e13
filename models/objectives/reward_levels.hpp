#pragma once
// How far the rewards of one spec lie above those of the spec before. A critic predicts one level; when the reward is
// replaced it has to be at the new one at once, and what the old spec scored is compared at the new level, too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

class RewardLevels {
 public:
  // Whether this version's level is still being found. 0 is feedback, which no spec scores; the first version is where
  // the critic begins.
  bool finding(std::uint64_t version) {
    if (version == 0) return false;
    if (versions_.empty()) versions_.push_back({version, 0, enough});
    if (version > versions_.back().version) versions_.push_back({version, 0, 0});
    if (versions_.size() > remembered) versions_.erase(versions_.begin());
    return version == versions_.back().version && versions_.back().seen < enough;
  }

  // So many more trajectories of the newest version returned on average `surplus` more than the critic predicted.
  // Returns by how much its prediction is to rise.
  double found(double surplus, std::size_t count) {
    Version& newest = versions_.back();
    newest.seen += count;
    const double rise = surplus * static_cast<double>(count) / static_cast<double>(newest.seen);
    for (Version& version : versions_) {
      if (version.version != newest.version) version.below_newest += rise;
    }
    return rise;
  }

  // What is added to a return of this version to compare it with those of the newest.
  double below_newest(std::uint64_t version) const {
    const auto found = std::find_if(versions_.begin(), versions_.end(),
                                    [&](const Version& known) { return known.version == version; });
    return found == versions_.end() ? 0 : found->below_newest;
  }

  // For checkpoints: three numbers a version.
  std::vector<double> numbers() const {
    std::vector<double> numbers;
    for (const Version& v : versions_) {
      numbers.insert(numbers.end(), {static_cast<double>(v.version), v.below_newest, static_cast<double>(v.seen)});
    }
    return numbers;
  }
  void restore(std::span<const double> numbers) {
    versions_.clear();
    for (std::size_t i = 0; i + 2 < numbers.size(); i += 3) {
      versions_.push_back(
          {static_cast<std::uint64_t>(numbers[i]), numbers[i + 1], static_cast<std::size_t>(numbers[i + 2])});
    }
  }

 private:
  static constexpr std::size_t enough = 32;     // trajectories that make a level
  static constexpr std::size_t remembered = 8;  // versions: more are not in flight together
  struct Version {
    std::uint64_t version;
    double below_newest;
    std::size_t seen;  // trajectories that its level was found from
  };
  std::vector<Version> versions_;  // oldest first
};

}  // namespace millrace
