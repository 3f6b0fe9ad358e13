#include "runtime/openai/choice_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace millrace {
namespace {

// Bytes at the end of `text` that may be the beginning of `stop`.
std::size_t beginning_of(std::string_view stop, std::string_view text) {
  for (std::size_t length = std::min(stop.size() - 1, text.size()); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

ChoiceText::ChoiceText(const Tokenizer& tokenizer, std::vector<std::string> stop)
    : detokenizer_(tokenizer), stop_(std::move(stop)) {}

std::string ChoiceText::push(TokenId token) { return show(detokenizer_.push(token)); }

std::string ChoiceText::finish() {
  std::string rest = show(detokenizer_.finish());
  return rest + std::exchange(held_, {});
}

std::string ChoiceText::show(const std::string& more) {
  if (stopped_by_) return "";
  held_ += more;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stop_) {
    const std::size_t found = held_.find(stop);
    if (found >= first) continue;
    first = found;
    stopped_by_ = stop;
  }
  std::size_t keep = 0;
  for (const std::string& stop : stop_) keep = std::max(keep, beginning_of(stop, held_));
  std::string shown = held_.substr(0, stopped_by_ ? first : held_.size() - keep);
  held_.erase(0, stopped_by_ ? held_.size() : shown.size());
  return shown;
}

}  // namespace millrace
