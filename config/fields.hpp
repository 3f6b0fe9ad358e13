#pragma once
// The one table of what can be set: key, member, allowed values, unit and meaning. Loading, environment variables,
// --set, `config show` and `config schema` all go through it, so a key is written once.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/settings.hpp"

namespace millrace {

struct Allowed {
  double min = 0;  // numbers
  double max = 0;
  bool above_min = false;          // min itself is not allowed
  std::vector<std::string> words;  // strings; empty = any
};

struct Field {
  std::string key;  // "section.key"
  std::variant<int*, std::uint64_t*, double*, bool*, std::string*, Recipe*> member;
  Allowed allowed;
  std::string unit;  // empty = none
  std::string meaning;
};

// The table, bound to one object; in the order of `config show`. The recipe is the first one.
std::vector<Field> fields_of(Settings& settings);

std::vector<std::string> recipe_names();

}  // namespace millrace
