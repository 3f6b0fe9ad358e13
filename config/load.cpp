#include "config/load.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>

#include "config/fields.hpp"
#include "config/nearest.hpp"
#include "config/strict_json.hpp"

namespace millrace {
namespace {

using nlohmann::json;
using Fields = std::vector<Field>;

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string number(double value) {
  std::ostringstream text;
  text.precision(15);
  text << value;
  return text.str();
}

// "an integer from 1 to 65536", "one of "keep", "recompute"", ...
std::string wanted(const Field& field) {
  const Allowed& allowed = field.allowed;
  if (std::holds_alternative<std::uint64_t*>(field.member)) return "an integer from 0 to 18446744073709551615";
  if (std::holds_alternative<int*>(field.member)) {
    return "an integer from " + number(allowed.min) + " to " + number(allowed.max);
  }
  if (std::holds_alternative<double*>(field.member)) {
    return allowed.above_min ? "a number above " + number(allowed.min) + " and at most " + number(allowed.max)
                             : "a number from " + number(allowed.min) + " to " + number(allowed.max);
  }
  if (std::holds_alternative<bool*>(field.member)) return "true or false";
  if (allowed.words.empty()) return "a string";
  if (allowed.words.size() == 1) return quoted(allowed.words[0]) + ", the only one so far";
  std::string list;
  for (const std::string& word : allowed.words) list += (list.empty() ? "one of " : ", ") + quoted(word);
  return list;
}

bool in_range(const Allowed& allowed, double value) {
  return (allowed.above_min ? value > allowed.min : value >= allowed.min) && value <= allowed.max;
}

bool in_words(const Allowed& allowed, const std::string& value) {
  return allowed.words.empty() || std::find(allowed.words.begin(), allowed.words.end(), value) != allowed.words.end();
}

// Writes the value through the field's pointer; false where its type or range is wrong.
bool assigned(const Field& field, const json& value) {
  if (auto* member = std::get_if<int*>(&field.member)) {
    if (!value.is_number_integer() || !in_range(field.allowed, value.get<double>())) return false;
    **member = value.get<int>();
  } else if (auto* unsigned_member = std::get_if<std::uint64_t*>(&field.member)) {
    if (!value.is_number_unsigned()) return false;
    **unsigned_member = value.get<std::uint64_t>();
  } else if (auto* real = std::get_if<double*>(&field.member)) {
    if (!value.is_number() || !in_range(field.allowed, value.get<double>())) return false;
    **real = value.get<double>();
  } else if (auto* flag = std::get_if<bool*>(&field.member)) {
    if (!value.is_boolean()) return false;
    **flag = value.get<bool>();
  } else {
    if (!value.is_string() || !in_words(field.allowed, value.get<std::string>())) return false;
    const auto text = value.get<std::string>();
    if (auto* word = std::get_if<std::string*>(&field.member)) {
      **word = text;
    } else {
      *std::get<Recipe*>(field.member) =
          *std::find_if(recipes.begin(), recipes.end(), [&](const Recipe& recipe) { return recipe.name == text; });
    }
  }
  return true;
}

const Field* find_field(const Fields& fields, const std::string& key) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

bool is_section(const Fields& fields, const std::string& key) {
  const std::string start = key + ".";
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return field.key.starts_with(start); });
}

tl::unexpected<Error> unknown_key(const Fields& fields, const std::string& key, const std::string& source) {
  std::vector<std::string> known;
  for (const Field& field : fields) known.push_back(field.key);
  return fail(source + ": unknown key " + quoted(key) + ": did you mean " + quoted(nearest(key, known)) + "?");
}

expected<void> assign(const Field& field, const json& value, const std::string& source) {
  if (assigned(field, value)) return {};
  return fail(source + ": " + quoted(field.key) + " is " + shown(value) + ": expected " + wanted(field));
}

// prefix: "" or "section."
expected<void> assign_object(const Fields& fields, const json& object, const std::string& prefix,
                             const std::string& source) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = prefix + name;
    expected<void> done;
    if (const Field* field = find_field(fields, key)) {
      done = assign(*field, value, source);
    } else if (!is_section(fields, key)) {
      done = unknown_key(fields, key, source);
    } else if (!value.is_object()) {
      done = fail(source + ": " + quoted(key) + " is " + shown(value) + ": expected an object with its keys");
    } else {
      done = assign_object(fields, value, key + ".", source);
    }
    if (!done) return done;
  }
  return {};
}

// A value of an environment variable or of --set: JSON, or a bare word for a string.
expected<void> assign_text(const Fields& fields, const std::string& key, const std::string& text,
                           const std::string& source) {
  const Field* field = find_field(fields, key);
  if (!field) return unknown_key(fields, key, source);
  const bool wants_text =
      std::holds_alternative<std::string*>(field->member) || std::holds_alternative<Recipe*>(field->member);
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || (wants_text && !value.is_string())) value = text;
  return assign(*field, value, source);
}

// MILLRACE_POLICY__LR -> policy.lr, MILLRACE_BATCH -> batch. Other names with one underscore only are not ours:
// Kubernetes gives every pod beside a Service "millrace" a MILLRACE_PORT and more.
std::optional<std::string> key_of_variable(const Fields& fields, const std::string& variable) {
  constexpr std::string_view start = "MILLRACE_";
  if (!variable.starts_with(start)) return std::nullopt;
  std::string key;
  for (std::size_t i = start.size(); i < variable.size(); ++i) {
    const bool separator = variable.compare(i, 2, "__") == 0;
    key += separator ? '.' : static_cast<char>(std::tolower(static_cast<unsigned char>(variable[i])));
    if (separator) ++i;
  }
  if (key.find('.') == std::string::npos && !find_field(fields, key)) return std::nullopt;
  return key;
}

expected<void> assign_overrides(const Fields& fields, const Overrides& overrides) {
  for (const auto& [variable, text] : overrides.environment) {
    const auto key = key_of_variable(fields, variable);
    if (!key) continue;
    if (auto done = assign_text(fields, *key, text, variable); !done) return done;
  }
  for (const std::string& set : overrides.sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos) return fail("--set " + set + ": expected key=value, like policy.lr=1e-5");
    if (auto done = assign_text(fields, set.substr(0, equals), set.substr(equals + 1), "--set " + set); !done) {
      return done;
    }
  }
  return {};
}

bool is_loopback(const std::string& address) {
  const bool numeric = address.find_first_not_of("0123456789.") == std::string::npos;
  return (numeric && address.starts_with("127.")) || address == "::1" || address == "localhost";
}

bool is_port_of_host(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == 0 || colon == std::string::npos) return false;
  int port = 0;
  const char *begin = address.data() + colon + 1, *end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(begin, end, port);
  return error == std::errc() && stop == end && port > 0 && port < 65536;
}

// cpu, cuda, cuda:0, cuda:12
bool is_device(std::string_view name) {
  if (name == "cpu" || name == "cuda") return true;
  if (!name.starts_with("cuda:")) return false;
  name.remove_prefix(5);
  return !name.empty() && name.size() <= 2 && name.find_first_not_of("0123456789") == name.npos;
}

// What belongs together. Returns what is wrong; empty = nothing.
std::string conflict(const Settings& s) {
  const RandomModelSettings& random = s.model.random;
  const auto is = [](const char* key, int value) { return quoted(key) + " is " + std::to_string(value); };
  if (s.min_batch > s.batch) {
    return is("min_batch", s.min_batch) + ", but " + is("batch", s.batch) + ": expected min_batch <= batch";
  }
  if (random.heads % random.kv_heads != 0) {
    return is("model.random.heads", random.heads) + ", but " + is("model.random.kv_heads", random.kv_heads) +
           ": expected heads to be a multiple of kv_heads";
  }
  if (random.hidden % (2 * random.heads) != 0) {  // rotary positions turn pairs of a head's channels
    return is("model.random.hidden", random.hidden) + ", but " + is("model.random.heads", random.heads) +
           ": expected hidden to be a multiple of 2 * heads";
  }
  if (s.generation.max_tokens >= s.model.max_context) {
    return is("generation.max_tokens", s.generation.max_tokens) + ", but " +
           is("model.max_context", s.model.max_context) + ": expected room for a prompt, too";
  }
  const Grouping& grouping = s.recipe.grouping;
  if (s.sessions.limit < grouping.size) {
    return is("sessions.limit", s.sessions.limit) + ", but " + is("grouping.size", grouping.size) +
           ": expected room for a whole group, sessions.limit >= grouping.size";
  }
  if (s.batch % grouping.size != 0) {
    return is("batch", s.batch) + ", but " + is("grouping.size", grouping.size) +
           ": expected batch to be a multiple of grouping.size, a batch holds whole groups";
  }
  if (s.recipe.baseline.kind == "group" && grouping.size < 2) {
    return is("grouping.size", grouping.size) +
           ", but \"baseline.kind\" is \"group\": expected groups of at least 2, or another baseline";
  }
  for (const auto& [key, device] : {std::pair{"generation.device", s.generation.device},
                                    {"policy.device", s.policy.device},
                                    {"value.device", s.value.device}}) {
    if (!is_device(device)) return quoted(key) + " is " + quoted(device) + ": expected cpu, cuda or cuda:N";
  }
  if (s.generation.dtype == "int8" && s.generation.device != "cpu") {
    return quoted("generation.dtype") + " is \"int8\", but " + quoted("generation.device") + " is " +
           quoted(s.generation.device) + ": expected auto, float32 or bfloat16 there";
  }
  if (s.replicas.rank >= s.replicas.count) {
    return is("replicas.rank", s.replicas.rank) + ", but " + is("replicas.count", s.replicas.count) +
           ": expected ranks from 0 to count - 1";
  }
  if (s.replicas.count > 1 && s.guard.action == "rollback") {
    return quoted("guard.action") + " is \"rollback\", but " + is("replicas.count", s.replicas.count) +
           ": expected warn or stop, one replica cannot go back without the others";
  }
  if (s.replicas.count > 1 && !is_port_of_host(s.replicas.address)) {
    return quoted("replicas.address") + " is " + quoted(s.replicas.address) + ": expected host:port";
  }
  if (!is_loopback(s.http.address) && s.http.token_file.empty()) {
    return quoted("http.address") + " is " + quoted(s.http.address) +
           ", which others can reach: expected a file with a bearer token in \"http.token_file\" (or 127.0.0.1)";
  }
  return "";
}

expected<void> assign_all(const Fields& fields, const json& document, const Overrides& overrides,
                          const std::string& file) {
  return assign_object(fields, document, "", file).and_then([&] { return assign_overrides(fields, overrides); });
}

}  // namespace

void use_recipe(Settings& settings, const Recipe& recipe) {
  settings.recipe = recipe;
  settings.pacing = recipe.pacing;
  settings.value.updates_per_step = recipe.critic.updates_per_step;
  settings.value.freeze = recipe.critic.freeze;
  settings.value.warmup_steps = recipe.critic.warmup_steps;
}

expected<Settings> load_settings(const std::string& file, const Overrides& overrides) {
  const auto document = read_json_file(file);
  if (!document) return tl::unexpected(document.error());
  if (!document->is_object()) return fail(file + ": is " + shown(*document) + ": expected an object with settings");

  // Twice: which recipe it is may be said last, but its numbers are defaults that all other values stand over.
  Settings scratch;
  if (auto done = assign_all(fields_of(scratch), *document, overrides, file); !done) {
    return tl::unexpected(done.error());
  }
  constexpr int not_given = 0;
  Settings settings;
  use_recipe(settings, *std::find_if(recipes.begin(), recipes.end(),
                                     [&](const Recipe& recipe) { return recipe.name == scratch.recipe.name; }));
  settings.preset = std::filesystem::path(file).stem().string();
  settings.min_batch = not_given;
  Fields fields = fields_of(settings);
  fields.front().member = &scratch.recipe;  // key "recipe": it has been read
  if (auto done = assign_all(fields, *document, overrides, file); !done) return tl::unexpected(done.error());

  if (settings.min_batch == not_given) settings.min_batch = settings.batch;
  if (settings.state.directory.empty()) settings.state.directory = "state/" + settings.preset;
  if (const std::string wrong = conflict(settings); !wrong.empty()) return fail(file + ": " + wrong);
  return settings;
}

}  // namespace millrace
