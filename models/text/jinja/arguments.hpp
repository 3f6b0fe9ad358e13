#pragma once
// The arguments of a call, taken by place or by name; what nobody takes is an error.
#include <optional>

#include "models/text/jinja/value.hpp"

namespace millrace::jinja {

class Arguments {
 public:
  Arguments(std::string function, std::vector<Value> placed, std::vector<std::pair<std::string, Value>> named)
      : function_(std::move(function)), placed_(std::move(placed)), named_(std::move(named)) {}

  // The next argument of the function; nothing if the call leaves it out.
  std::optional<Value> next(std::string_view name) {
    if (position_ < placed_.size()) return placed_[position_++];
    ++position_;
    for (auto& [given, value] : named_) {
      if (given != name) continue;
      given.clear();
      return value;
    }
    return std::nullopt;
  }
  Value required(std::string_view name) {
    if (auto value = next(name)) return *value;
    throw Failure{function_ + " misses its argument \"" + std::string(name) + "\""};
  }
  void done() const {
    if (position_ < placed_.size()) {
      throw Failure{function_ + " takes " + std::to_string(position_) + " arguments, not " +
                    std::to_string(placed_.size())};
    }
    for (const auto& [name, value] : named_) {
      if (!name.empty()) throw Failure{function_ + " knows no argument \"" + name + "\""};
    }
  }
  // All of them by name, for namespace(...).
  std::vector<std::pair<std::string, Value>> take_named() { return std::exchange(named_, {}); }

  const std::string& function() const { return function_; }

 private:
  std::string function_;
  std::vector<Value> placed_;
  std::vector<std::pair<std::string, Value>> named_;
  std::size_t position_ = 0;
};

}  // namespace millrace::jinja
