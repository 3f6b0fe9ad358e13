#include "runtime/scored_trajectories.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "models/text/chat.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr const char* forms =
    R"(expected {"tokens", "mask", "reward" or "rewards"} or {"messages", "answer", "reward"})";

expected<double> number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !std::isfinite(found->get<double>())) {
    return fail(std::string("\"") + key + "\": expected a number");
  }
  return found->get<double>();
}

void append(Sequence& sequence, const Tokens& tokens, bool actions) {
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  sequence.mask.resize(sequence.tokens.size(), actions ? 1 : 0);
}

expected<Sequence> from_text(const json& line, const Tokenizer& tokenizer) {
  std::vector<Message> messages;
  for (const json& message : line["messages"]) {
    if (!message.is_object() || !message.contains("role") || !message.contains("content") ||
        !message["role"].is_string() || !message["content"].is_string()) {
      return fail(R"("messages": expected objects with the texts "role" and "content")");
    }
    messages.push_back({message["role"], message["content"]});
  }
  if (!line.contains("answer") || !line["answer"].is_string()) return fail("\"answer\": expected a text");
  Sequence sequence;
  const expected<Tokens> prompt = encode_chat(tokenizer, messages);
  if (!prompt) return tl::unexpected(prompt.error());
  append(sequence, *prompt, false);
  Tokens answer = tokenizer.encode(line["answer"].get<std::string>());
  answer.push_back(tokenizer.eos());
  append(sequence, answer, true);
  return sequence;
}

expected<Sequence> from_tokens(const json& line, const Tokenizer& tokenizer) {
  const auto whole_numbers = [](const json& list) {
    return list.is_array() &&
           std::all_of(list.begin(), list.end(), [](const json& n) { return n.is_number_integer(); });
  };
  if (!whole_numbers(line["tokens"])) return fail("\"tokens\": expected a list of token ids");
  if (!line.contains("mask") || !whole_numbers(line["mask"]) || line["mask"].size() != line["tokens"].size()) {
    return fail("\"mask\": expected a 1 or 0 for each token");
  }
  Sequence sequence;
  for (std::size_t t = 0; t < line["tokens"].size(); ++t) {
    const auto id = line["tokens"][t].get<std::int64_t>();
    if (id < 0 || id >= static_cast<std::int64_t>(tokenizer.size())) {
      return fail("\"tokens\": " + std::to_string(id) + " is not in the vocabulary of " +
                  std::to_string(tokenizer.size()));
    }
    sequence.tokens.push_back(static_cast<TokenId>(id));
    sequence.mask.push_back(line["mask"][t] != 0 ? 1 : 0);
  }
  return sequence;
}

}  // namespace

expected<ScoredTrajectories> ScoredTrajectories::open(const std::string& path, const Tokenizer& tokenizer) {
  ScoredTrajectories data(tokenizer);
  data.path_ = path;
  if (path.ends_with(".jsonl")) {
    data.lines_.open(path);
    if (!data.lines_) return fail(path + ": cannot be read: expected a file of JSON lines");
    for (std::string line; std::getline(data.lines_, line);) ++data.total_;
    data.lines_.clear();
    data.lines_.seekg(0);
    return data;
  }
  const std::filesystem::path file(path);
  const bool is_file = file.filename() == "ledger.sqlite";
  auto ledger = Ledger::open_read_only(is_file ? file.parent_path().string() : path);
  if (!ledger) return tl::unexpected(ledger.error());
  data.ledger_.emplace(std::move(*ledger));
  data.ids_ = data.ledger_->scored();
  data.total_ = data.ids_.size();
  return data;
}

expected<Sequence> ScoredTrajectories::parse(const std::string& line) const {
  const json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return fail(forms);
  const bool of_tokens = document.contains("tokens");
  if (!of_tokens && !(document.contains("messages") && document["messages"].is_array())) return fail(forms);
  auto sequence = of_tokens ? from_tokens(document, *tokenizer_) : from_text(document, *tokenizer_);
  if (!sequence) return sequence;
  const std::size_t length = sequence->tokens.size();
  sequence->behaviour.assign(length, 0.0f);
  sequence->rewards.assign(length, 0.0f);
  if (length == 0 || sequence->mask[0]) return fail("expected at least one token before the first action");
  if (document.contains("rewards")) {
    const json& rewards = document["rewards"];
    const bool numbers = rewards.is_array() && rewards.size() == length &&
                         std::all_of(rewards.begin(), rewards.end(), [](const json& n) { return n.is_number(); });
    if (!numbers) return fail("\"rewards\": expected a number for each token");
    for (std::size_t t = 0; t < length; ++t) sequence->rewards[t] = rewards[t].get<float>();
  } else {
    const auto reward = number_at(document, "reward");
    if (!reward) return tl::unexpected(reward.error());
    sequence->rewards.back() = static_cast<float>(*reward);
  }
  return sequence;
}

expected<std::optional<Sequence>> ScoredTrajectories::next() {
  if (ledger_) {
    if (read_ == ids_.size()) return std::optional<Sequence>();
    auto trajectory = ledger_->read(ids_[read_++]);
    if (!trajectory) return tl::unexpected(trajectory.error());
    return std::optional(trajectory->scored_sequence());
  }
  std::string line;
  if (!std::getline(lines_, line)) return std::optional<Sequence>();
  ++read_;
  auto sequence = parse(line);
  if (!sequence) return fail(path_ + ":" + std::to_string(read_) + ": " + sequence.error().message);
  return std::optional(std::move(*sequence));
}

}  // namespace millrace
