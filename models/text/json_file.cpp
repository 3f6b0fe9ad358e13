#include "models/text/json_file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace millrace {

std::optional<std::string> read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return file.good() || file.eof() ? std::optional(std::move(text)) : std::nullopt;
}

expected<nlohmann::json> read_json_object(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text) return fail(path + ": there is no such file, or it cannot be read");
  nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail(path + ": is no JSON");
  if (!json.is_object()) return fail(path + ": an object is expected, not a " + json.type_name());
  return json;
}

}  // namespace millrace
