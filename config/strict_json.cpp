#include "config/strict_json.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

namespace millrace {
namespace {

using nlohmann::json;

// Listens to the parser and remembers the first key that stands twice in one object.
class DuplicateKeys {
 public:
  void event(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) {
      levels_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      levels_.pop_back();
    } else if (event == json::parse_event_t::key) {
      Level& level = levels_.back();
      level.key = parsed.get<std::string>();
      if (!level.seen.insert(level.key).second && first_.empty()) first_ = path();
    }
  }
  const std::string& first() const { return first_; }

 private:
  struct Level {
    std::set<std::string> seen;
    std::string key;
  };
  std::string path() const {
    std::string path;
    for (const Level& level : levels_) path += (path.empty() ? "" : ".") + level.key;
    return path;
  }
  std::vector<Level> levels_;
  std::string first_;
};

// "3:14" for the byte (counted from 1) at which the parser stopped.
std::string line_and_column(const std::string& text, std::size_t byte) {
  const std::size_t end = std::min(text.size(), std::max<std::size_t>(byte, 1) - 1);
  const std::string before = text.substr(0, end);
  const std::size_t line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string::npos ? end + 1 : end - newline;
  return std::to_string(line) + ":" + std::to_string(column);
}

// nlohmann's text without its own prefix "[json.exception...] parse error at line 1, column 2: ".
std::string reason_of(const json::exception& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

expected<json> parse_json(const std::string& text, const std::string& source) {
  DuplicateKeys keys;
  const auto listen = [&keys](int, json::parse_event_t event, json& parsed) {
    keys.event(event, parsed);
    return true;
  };
  try {
    json document = json::parse(text, listen, /*allow_exceptions=*/true, /*ignore_comments=*/true);
    if (!keys.first().empty()) return fail(source + ": key \"" + keys.first() + "\" stands twice: keep one of them");
    return document;
  } catch (const json::parse_error& error) {
    return fail(source + ":" + line_and_column(text, error.byte) + ": " + reason_of(error));
  } catch (const json::exception& error) {  // a number too large for a double
    return fail(source + ": " + std::string(error.what()));
  }
}

expected<json> read_json_file(const std::string& file) {
  if (std::filesystem::is_directory(file)) return fail(file + ": is a folder, expected a JSON file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return fail(file + ": cannot be read: " + std::strerror(errno));
  return parse_json(std::string(std::istreambuf_iterator<char>(stream), {}), file);
}

std::string shown(const json& value) {
  constexpr std::size_t longest = 80;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

}  // namespace millrace
