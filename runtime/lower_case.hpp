#pragma once
#include <string>
#include <string_view>

namespace millrace {

// ASCII letters in lower case, every other byte as it is: safe for UTF-8 and in every locale.
inline std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace millrace
