#pragma once
// Whether the newest policy may have all applications, or has to go. While it is a canary it answers a share of them,
// the last good one the rest; their ratings decide. Plain counting; the live actor acts on it.
#include <deque>
#include <string>

#include "config/settings.hpp"

namespace millrace {

class Canary {
 public:
  explicit Canary(const LiveSettings& settings) : settings_(settings) {}

  enum class Verdict { wait, good, bad };
  // A rating of an answer that the newest policy gave, or the last good one. `good`: the newest is the last good one
  // from now on; `bad`: it is worse by more than the margin. After either, counting begins anew.
  Verdict rated(bool newest, double reward);
  void begin_anew();  // what was counted says nothing about the newest policy any more

  std::string words() const { return words_; }  // what the last verdict was based on

 private:
  LiveSettings settings_;
  std::deque<double> newest_, good_;  // the last ratings of each
  std::string words_;
};

// Whether an answer is the newest policy's to give; a client stays with one of the two.
bool meets_canary(const LiveSettings& settings, const std::string& client);

}  // namespace millrace
