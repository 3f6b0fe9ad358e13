#include "config/fields.hpp"
#include "config/load.hpp"

namespace millrace {
namespace {

using nlohmann::ordered_json;

// Calls visit(section, last part) for each section of "a.b.c" from the outside, then returns "c".
template <class Visit>
std::string walk(const std::string& key, Visit visit) {
  std::size_t start = 0;
  for (std::size_t dot; (dot = key.find('.', start)) != std::string::npos; start = dot + 1) {
    visit(key.substr(start, dot - start));
  }
  return key.substr(start);
}

ordered_json value_of(const Field& field) {
  return std::visit(
      [](const auto* member) -> ordered_json {
        if constexpr (std::is_same_v<decltype(member), const Recipe*>) {
          return member->name;
        } else {
          return *member;
        }
      },
      field.member);
}

ordered_json schema_of(const Field& field) {
  const ordered_json value = value_of(field);
  const bool integer = value.is_number_integer();
  ordered_json schema;
  schema["type"] = value.is_string() ? "string" : value.is_boolean() ? "boolean" : integer ? "integer" : "number";
  if (!field.allowed.words.empty()) schema["enum"] = field.allowed.words;
  if (std::holds_alternative<std::uint64_t*>(field.member)) {
    schema["minimum"] = 0;
  } else if (value.is_number()) {
    const auto bound = [&](double number) {
      return integer ? ordered_json(static_cast<std::int64_t>(number)) : ordered_json(number);
    };
    schema[field.allowed.above_min ? "exclusiveMinimum" : "minimum"] = bound(field.allowed.min);
    schema["maximum"] = bound(field.allowed.max);
  }
  schema["default"] = value;
  schema["description"] = field.meaning + (field.unit.empty() ? "" : " [" + field.unit + "]");
  return schema;
}

ordered_json empty_object_schema() {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", ordered_json::object()}};
}

}  // namespace

ordered_json to_json(const Settings& settings) {
  Settings copy = settings;
  ordered_json document = ordered_json::object();
  for (const Field& field : fields_of(copy)) {
    ordered_json* place = &document;
    const std::string last = walk(field.key, [&](const std::string& section) { place = &(*place)[section]; });
    (*place)[last] = value_of(field);
  }
  return document;
}

ordered_json settings_schema() {
  Settings defaults;
  ordered_json document = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                           {"title", "Millrace settings (JSON with comments)"}};
  document.update(empty_object_schema());
  for (const Field& field : fields_of(defaults)) {
    ordered_json* place = &document["properties"];
    const std::string last = walk(field.key, [&](const std::string& section) {
      if (!place->contains(section)) (*place)[section] = empty_object_schema();
      place = &(*place)[section]["properties"];
    });
    (*place)[last] = schema_of(field);
  }
  return document;
}

}  // namespace millrace
