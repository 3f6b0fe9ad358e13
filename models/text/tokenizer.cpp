#include "models/text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "models/text/byte_pairs.hpp"
#include "models/text/byte_spelling.hpp"
#include "models/text/pre_tokenizer.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

struct Control {
  std::string spelling;
  TokenId token;
};

}  // namespace

struct Tokenizer::State {
  std::vector<std::string> bytes;       // [token], raw; empty for control tokens
  std::vector<bool> control;            // [token]
  std::vector<Control> controls;        // longest spelling first
  std::array<TokenId, 256> byte_token;  // -1: the vocabulary has none for this byte
  BytePairs pairs;
  PreTokenizer pre_tokenizer;
  TokenId bos = -1;
  TokenId eos = -1;
  std::string chat_template;

  expected<void> add_tokens(const Vocabulary& vocabulary);
  expected<void> add_merges(const std::vector<std::string>& merges);
  void encode(std::string_view text, Tokens& tokens) const;
};

expected<void> Tokenizer::State::add_tokens(const Vocabulary& vocabulary) {
  const std::size_t size = vocabulary.tokens.size();
  const auto known = [&](TokenId token) { return token >= 0 && static_cast<std::size_t>(token) < size; };
  const auto out_of_range = [&](const std::string& what, TokenId token) {
    return fail(what + ' ' + std::to_string(token) + " is not in the vocabulary of " + std::to_string(size) +
                " tokens");
  };

  if (vocabulary.bos != -1 && !known(vocabulary.bos)) return out_of_range("bos token", vocabulary.bos);
  if (vocabulary.eos != -1 && !known(vocabulary.eos)) return out_of_range("eos token", vocabulary.eos);
  bos = vocabulary.bos;
  eos = vocabulary.eos;

  control.resize(size);
  for (const TokenId token : vocabulary.control) {
    if (!known(token)) return out_of_range("control token", token);
    const std::string& spelling = vocabulary.tokens[static_cast<std::size_t>(token)];
    if (spelling.empty()) return fail("control token " + std::to_string(token) + " has an empty spelling");
    control[static_cast<std::size_t>(token)] = true;
    controls.push_back({spelling, token});
  }
  std::ranges::stable_sort(controls, std::ranges::greater{}, [](const Control& c) { return c.spelling.size(); });

  bytes.resize(size);
  byte_token.fill(-1);
  for (std::size_t token = 0; token < size; ++token) {
    if (control[token]) continue;
    const std::string& spelling = vocabulary.tokens[token];
    auto raw = bytes_of_spelling(spelling);
    if (!raw)
      return fail("token " + std::to_string(token) + ' ' + in_quotes(spelling) + " is not in GPT-2's byte spelling");
    if (raw->size() == 1) byte_token[static_cast<unsigned char>(raw->front())] = static_cast<TokenId>(token);
    bytes[token] = std::move(*raw);
  }
  return {};
}

// A merge may join and give only plain tokens: so no text, whatever it says, becomes a control token.
expected<void> Tokenizer::State::add_merges(const std::vector<std::string>& merges) {
  std::unordered_map<std::string_view, TokenId> plain;  // by raw bytes, of which control tokens have none
  plain.reserve(bytes.size());
  for (std::size_t token = 0; token < bytes.size(); ++token) {
    if (!bytes[token].empty()) plain.try_emplace(bytes[token], static_cast<TokenId>(token));
  }

  const auto find = [&](const std::optional<std::string>& raw) {
    const auto found = raw ? plain.find(*raw) : plain.end();
    return found == plain.end() ? TokenId{-1} : found->second;
  };
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const std::size_t space = std::min(merge.find(' '), merge.size());
    const auto left = bytes_of_spelling(merge.substr(0, space));
    const auto right = bytes_of_spelling(merge.substr(std::min(space + 1, merge.size())));
    const TokenId merged = left && right ? find(*left + *right) : -1;
    if (find(left) < 0 || find(right) < 0 || merged < 0) {
      return fail("merge " + std::to_string(i) + ' ' + in_quotes(merge) + ": two plain tokens of the vocabulary are " +
                  "expected, with a space between them, that together are a third");
    }
    pairs.add(find(left), find(right), merged);
  }
  return {};
}

void Tokenizer::State::encode(std::string_view text, Tokens& tokens) const {
  Tokens symbols;
  for (const std::string_view piece : pre_tokenizer.split(text)) {
    symbols.clear();
    for (const char byte : piece) symbols.push_back(byte_token[static_cast<unsigned char>(byte)]);
    pairs.merge(symbols, tokens);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

expected<Tokenizer> Tokenizer::make(Vocabulary vocabulary) {
  auto pre_tokenizer = PreTokenizer::make(vocabulary.pre_tokenizer);
  if (!pre_tokenizer) return tl::unexpected(pre_tokenizer.error());
  auto state = std::make_unique<State>();
  state->pre_tokenizer = std::move(*pre_tokenizer);
  if (auto added = state->add_tokens(vocabulary); !added) return tl::unexpected(added.error());
  if (auto added = state->add_merges(vocabulary.merges); !added) return tl::unexpected(added.error());
  state->chat_template = std::move(vocabulary.chat_template);
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::bytes() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.push_back(spell_byte(static_cast<unsigned char>(byte)));
  for (const char* spelling : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"}) {
    vocabulary.control.push_back(static_cast<TokenId>(vocabulary.tokens.size()));
    vocabulary.tokens.emplace_back(spelling);
  }
  vocabulary.eos = vocabulary.control[1];
  vocabulary.pre_tokenizer = "bytes";
  return make(std::move(vocabulary)).value();
}

Tokens Tokenizer::encode(std::string_view text) const {
  Tokens tokens;
  state_->encode(text, tokens);
  return tokens;
}

Tokens Tokenizer::encode_template(std::string_view text) const {
  Tokens tokens;
  while (!text.empty()) {
    const Control* first = nullptr;
    std::size_t begin = text.size();
    for (const Control& control : state_->controls) {
      if (const std::size_t found = text.find(control.spelling); found < begin) {
        begin = found;
        first = &control;
      }
    }
    state_->encode(text.substr(0, begin), tokens);
    text.remove_prefix(begin);
    if (!first) break;
    tokens.push_back(first->token);
    text.remove_prefix(first->spelling.size());
  }
  return tokens;
}

std::string Tokenizer::decode(const Tokens& tokens) const {
  std::string raw;
  for (const TokenId token : tokens) raw += bytes_of(token);
  return to_valid_utf8(raw);
}

std::string_view Tokenizer::bytes_of(TokenId token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size()) return {};
  return state_->bytes[static_cast<std::size_t>(token)];
}

bool Tokenizer::is_control(TokenId token) const {
  return token >= 0 && static_cast<std::size_t>(token) < size() && state_->control[static_cast<std::size_t>(token)];
}

TokenId Tokenizer::eos() const { return state_->eos; }
TokenId Tokenizer::bos() const { return state_->bos; }
std::size_t Tokenizer::size() const { return state_->bytes.size(); }
const std::string& Tokenizer::chat_template() const { return state_->chat_template; }

}  // namespace millrace
