#pragma once
// Log lines on stderr: time, level, component, text. Never prompts, answers or tokens.
#include <string>
#include <string_view>

namespace millrace {

enum class LogLevel { info, warning, error };

void log(LogLevel level, std::string_view component, std::string_view text);
inline void log_info(std::string_view component, std::string_view text) { log(LogLevel::info, component, text); }
inline void log_warning(std::string_view component, std::string_view text) { log(LogLevel::warning, component, text); }
inline void log_error(std::string_view component, std::string_view text) { log(LogLevel::error, component, text); }

}  // namespace millrace
