#include "runtime/preference.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "config/strict_json.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr std::array choices{InFlight::keep, InFlight::finish, InFlight::rescore, InFlight::expire};

expected<SpecEntry> parse_entry(const std::string& line, const std::string& where) {
  const auto document = parse_json(line, where);
  if (!document) return tl::unexpected(document.error());
  try {
    auto spec = RewardSpec::parse(document->at("spec"));
    if (!spec) return fail(where + ": " + spec.error().message);
    const auto in_flight = in_flight_of(document->at("in_flight"));
    if (!in_flight) return fail(where + ": " + in_flight.error().message);
    return SpecEntry{document->at("version"), std::make_shared<const RewardSpec>(std::move(*spec)),
                     document->at("since"),   document->at("who"),
                     document->at("why"),     *in_flight};
  } catch (const json::exception& error) {
    return fail(where + ": not a line that this program wrote (" + error.what() +
                "): restore it, or start with --fresh");
  }
}

// Durable on return.
expected<void> append(const std::string& file, const std::string& line) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool written =
      descriptor >= 0 && ::write(descriptor, line.data(), line.size()) == std::ssize(line) && ::fsync(descriptor) == 0;
  const std::string why = std::strerror(errno);
  if (descriptor >= 0) ::close(descriptor);
  if (!written) return fail("the shift could not be written to " + file + ": " + why);
  return {};
}

}  // namespace

const char* name_of(InFlight choice) {
  switch (choice) {
    case InFlight::keep: return "keep";
    case InFlight::finish: return "finish";
    case InFlight::rescore: return "rescore";
    case InFlight::expire: return "expire";
  }
  return "unknown";
}

expected<InFlight> in_flight_of(const std::string& name) {
  for (const InFlight choice : choices) {
    if (name == name_of(choice)) return choice;
  }
  return fail("\"in_flight\" is \"" + name + "\": expected keep, finish, rescore or expire");
}

json to_json(const SpecEntry& entry) {
  return {{"version", entry.version},
          {"name", entry.spec->name()},
          {"since", entry.since},
          {"who", entry.who},
          {"why", entry.why},
          {"in_flight", name_of(entry.in_flight)},
          {"spec", entry.spec->document()}};
}

Preference::Preference(SpecPtr configured) : history_{{1, std::move(configured), 0, "config", "", InFlight::keep}} {}

expected<Preference> Preference::open(const std::string& file, SpecPtr configured, double now) {
  Preference preference;
  preference.file_ = file;
  std::ifstream stream(file, std::ios::binary);
  const SpecEntry* from_config = nullptr;
  std::size_t last_config = 0;
  std::size_t whole = 0;  // bytes
  for (std::string line; std::getline(stream, line) && !stream.eof(); whole += line.size() + 1) {
    auto entry = parse_entry(line, file + ":" + std::to_string(preference.history_.size() + 1));
    if (!entry) return tl::unexpected(entry.error());
    if (entry->who == "config") last_config = preference.history_.size();
    preference.history_.push_back(std::move(*entry));
  }
  // A line that a crash cut short is a shift that never took effect.
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) std::filesystem::resize_file(file, whole, ignored);
  if (!preference.history_.empty()) from_config = &preference.history_[last_config];
  if (from_config && from_config->spec->document() == configured->document()) return preference;
  const auto put = preference.put(std::move(configured), "config", "", InFlight::keep, now);
  if (!put) return tl::unexpected(put.error());
  return preference;
}

expected<void> Preference::put(SpecPtr spec, const std::string& who, const std::string& why, InFlight in_flight,
                               double now) {
  SpecEntry entry{history_.empty() ? 1 : current().version + 1, std::move(spec), now, who, why, in_flight};
  if (!file_.empty()) {
    const auto written = append(file_, to_json(entry).dump(-1, ' ', false, json::error_handler_t::replace) + '\n');
    if (!written) return written;
  }
  history_.push_back(std::move(entry));
  return {};
}

const SpecEntry& Preference::entry_for(double begun) const {
  std::size_t at = history_.size() - 1;
  if (begun <= 0) return history_[at];
  while (at > 0 && history_[at].in_flight == InFlight::finish && begun < history_[at].since) --at;
  return history_[at];
}

const SpecEntry* Preference::find(std::uint64_t version) const {
  for (const SpecEntry& entry : history_) {
    if (entry.version == version) return &entry;
  }
  return nullptr;
}

expected<RewardSpec> blend(const RewardSpec& from, const RewardSpec& to, double share) {
  const int percent = static_cast<int>(std::lround(100 * share));
  json parts = json::array();
  const auto add = [&parts](const RewardSpec& spec, const std::string& prefix, double weight) {
    for (json part : spec.document().at("parts")) {
      part["name"] = (prefix + part.at("name").get<std::string>()).substr(0, 64);
      part["weight"] = weight * part.at("weight").get<double>();
      parts.push_back(std::move(part));
    }
  };
  add(from, "old_", 1 - share);
  add(to, "new_", share);
  return RewardSpec::parse({{"name", to.name().substr(0, 50) + "-ramp-" + std::to_string(percent)}, {"parts", parts}});
}

}  // namespace millrace
