#include "models/text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "models/text/added_tokens.hpp"
#include "models/text/byte_pairs.hpp"
#include "models/text/byte_spelling.hpp"
#include "models/text/pre_tokenizer.hpp"
#include "models/text/unicode.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

constexpr std::string_view space_sign = "\u2581";

// The byte that a token like <0x0A> stands for, or -1.
int byte_of_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int byte = 0;
  for (const char digit : spelling.substr(3, 2)) {
    const std::size_t value = std::string_view("0123456789ABCDEF").find(digit);
    if (value == std::string_view::npos) return -1;
    byte = byte * 16 + static_cast<int>(value);
  }
  return byte;
}

std::string with_space_signs(std::string_view text) {
  std::string out;
  for (const char byte : text) byte == ' ' ? out.append(space_sign) : out.append(1, byte);
  return out;
}

std::string without_space_signs(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_sign = text.substr(at).starts_with(space_sign);
    out += is_sign ? ' ' : text[at];
    at += is_sign ? space_sign.size() : 1;
  }
  return out;
}

}  // namespace

struct Tokenizer::State {
  Vocabulary vocabulary;
  std::vector<std::string> bytes;                       // [token], raw; empty for control tokens
  std::vector<bool> control;                            // [token]
  std::unordered_map<std::string_view, TokenId> plain;  // by spelling: what merges may join and give
  std::array<TokenId, 256> byte_token;                  // -1: the vocabulary has none for this byte
  AddedTokens added;
  BytePairs pairs;
  PreTokenizer pre_tokenizer;
  std::optional<jinja::Template> chat_template;

  expected<void> add_tokens();
  expected<void> add_plain(TokenId token);
  expected<void> add_merges();
  void encode_piece(std::string_view piece, Tokens& tokens) const;
  void encode_part(std::string_view text, bool at_start, Tokens& tokens) const;
  Tokens encode(std::string_view text, std::string_view marks) const;
};

expected<void> Tokenizer::State::add_plain(TokenId token) {
  const std::string& spelling = vocabulary.tokens[static_cast<std::size_t>(token)];
  if (spelling.empty()) return {};
  plain.try_emplace(spelling, token);
  std::string& raw = bytes[static_cast<std::size_t>(token)];
  if (vocabulary.spelling == Spelling::characters) {
    const int byte = byte_of_spelling(spelling);
    raw = byte < 0 ? without_space_signs(spelling) : std::string(1, static_cast<char>(byte));
    if (byte >= 0) byte_token[static_cast<std::size_t>(byte)] = token;
    return {};
  }
  auto spelled = bytes_of_spelling(spelling);
  if (!spelled) {
    return fail("token " + std::to_string(token) + ' ' + in_quotes(spelling) + " is not in GPT-2's byte spelling");
  }
  if (spelled->size() == 1) byte_token[static_cast<unsigned char>(spelled->front())] = token;
  raw = std::move(*spelled);
  return {};
}

expected<void> Tokenizer::State::add_tokens() {
  const std::size_t size = vocabulary.tokens.size();
  const auto known = [&](TokenId token) { return token >= 0 && static_cast<std::size_t>(token) < size; };
  const auto out_of_range = [&](const std::string& what, TokenId token) {
    return fail(what + ' ' + std::to_string(token) + " is not in the vocabulary of " + std::to_string(size) +
                " tokens");
  };

  if (vocabulary.bos != -1 && !known(vocabulary.bos)) return out_of_range("bos token", vocabulary.bos);
  if (vocabulary.eos != -1 && !known(vocabulary.eos)) return out_of_range("eos token", vocabulary.eos);
  for (const TokenId token : vocabulary.stops) {
    if (!known(token)) return out_of_range("stop token", token);
  }

  bytes.resize(size);
  control.resize(size);
  byte_token.fill(-1);
  std::vector<bool> is_added(size);
  for (const auto& [list, what] :
       {std::pair(&vocabulary.control, "control token"), {&vocabulary.added, "added token"}}) {
    for (const TokenId token : *list) {
      if (!known(token)) return out_of_range(what, token);
      const std::string& spelling = vocabulary.tokens[static_cast<std::size_t>(token)];
      if (spelling.empty()) return fail(what + (' ' + std::to_string(token)) + " has an empty spelling");
      const bool is_control = list == &vocabulary.control;
      is_added[static_cast<std::size_t>(token)] = true;
      control[static_cast<std::size_t>(token)] = is_control;
      if (!is_control) bytes[static_cast<std::size_t>(token)] = spelling;
      const auto eats = [&](const std::vector<TokenId>& those) {
        return std::ranges::find(those, token) != those.end();
      };
      added.add({spelling, token, is_control, eats(vocabulary.eats_space_before), eats(vocabulary.eats_space_after)});
    }
  }
  for (std::size_t token = 0; token < size; ++token) {
    if (is_added[token]) continue;
    if (auto done = add_plain(static_cast<TokenId>(token)); !done) return done;
  }
  if (vocabulary.spelling == Spelling::characters) {
    const auto missing = std::ranges::find(byte_token, TokenId{-1});
    if (missing != byte_token.end()) {
      return fail("there is no token for the byte " + std::to_string(missing - byte_token.begin()));
    }
  }
  return {};
}

// A merge may join and give only plain tokens: so no text, whatever it says, becomes a control token.
expected<void> Tokenizer::State::add_merges() {
  const auto find = [&](std::string_view spelling) {
    const auto found = plain.find(spelling);
    return found == plain.end() ? TokenId{-1} : found->second;
  };
  std::string both;
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view merge = vocabulary.merges[i];
    const std::size_t space = std::min(merge.find(' '), merge.size());
    const std::string_view left = merge.substr(0, space), right = merge.substr(std::min(space + 1, merge.size()));
    both.assign(left).append(right);
    const TokenId merged = find(both);
    if (find(left) < 0 || find(right) < 0 || merged < 0) {
      return fail("merge " + std::to_string(i) + ' ' + in_quotes(merge) + ": two plain tokens of the vocabulary are " +
                  "expected, with a space between them, that together are a third");
    }
    pairs.add(find(left), find(right), merged);
  }
  return {};
}

void Tokenizer::State::encode_piece(std::string_view piece, Tokens& tokens) const {
  Tokens symbols;
  symbols.reserve(piece.size());
  if (vocabulary.spelling == Spelling::characters) {
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t size = character_at(piece, at).size;
      const auto found = plain.find(piece.substr(at, size));
      if (found != plain.end())
        symbols.push_back(found->second);
      else
        for (const char byte : piece.substr(at, size)) symbols.push_back(byte_token[static_cast<unsigned char>(byte)]);
      at += size;
    }
  } else {
    if (vocabulary.whole_pieces) {
      std::string spelling;
      for (const char byte : piece) spelling += spell_byte(static_cast<unsigned char>(byte));
      if (const auto found = plain.find(spelling); found != plain.end()) return tokens.push_back(found->second);
    }
    for (const char byte : piece) symbols.push_back(byte_token[static_cast<unsigned char>(byte)]);
  }
  pairs.merge(symbols, tokens);
}

// Text between two added tokens.
void Tokenizer::State::encode_part(std::string_view text, bool at_start, Tokens& tokens) const {
  if (text.empty()) return;
  std::string changed;
  if (vocabulary.compose) text = changed = to_nfc(text);
  if (vocabulary.spelling == Spelling::characters) {
    const LeadingSpace lead = vocabulary.leading_space;
    const bool has_space = text.starts_with(' ') || text.starts_with(space_sign);
    const bool here = lead == LeadingSpace::at_parts || (lead == LeadingSpace::at_start && at_start);
    changed = with_space_signs(text);
    if (lead == LeadingSpace::always || (here && !has_space)) changed.insert(0, space_sign);
    text = changed;
  }
  for (const std::string_view piece : pre_tokenizer.split(text)) encode_piece(piece, tokens);
}

Tokens Tokenizer::State::encode(std::string_view text, std::string_view marks) const {
  Tokens tokens;
  std::size_t begin = 0;
  while (const auto match = added.find(text, marks, begin)) {
    encode_part(text.substr(begin, match->begin - begin), begin == 0, tokens);
    tokens.push_back(match->token);
    begin = match->end;
  }
  encode_part(text.substr(begin), begin == 0, tokens);
  return tokens;
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

expected<Tokenizer> Tokenizer::make(Vocabulary vocabulary) {
  auto pre_tokenizer = vocabulary.pre_tokenizer.empty() ? PreTokenizer::make(vocabulary.patterns)
                                                        : PreTokenizer::make(vocabulary.pre_tokenizer);
  if (!pre_tokenizer) return tl::unexpected(pre_tokenizer.error());
  auto state = std::make_unique<State>();
  state->vocabulary = std::move(vocabulary);
  state->pre_tokenizer = std::move(*pre_tokenizer);
  if (auto done = state->add_tokens(); !done) return tl::unexpected(done.error());
  if (auto done = state->add_merges(); !done) return tl::unexpected(done.error());
  if (const std::string& source = state->vocabulary.chat_template; !source.empty()) {
    auto parsed = jinja::Template::parse(source);
    if (!parsed) return fail("chat template: " + parsed.error().message);
    state->chat_template.emplace(std::move(*parsed));
  }
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
  vocabulary.chat_template =
      "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  return make(std::move(vocabulary)).value();
}

Tokens Tokenizer::encode(std::string_view text) const {
  return state_->encode(text, std::string(text.size(), MarkedText::quoted));
}

Tokens Tokenizer::encode_template(std::string_view text) const {
  return state_->encode(text, std::string(text.size(), MarkedText::trusted));
}

Tokens Tokenizer::encode_marked(const MarkedText& text) const { return state_->encode(text.text, text.marks); }

std::string Tokenizer::decode(const Tokens& tokens) const {
  std::string raw;
  raw.reserve(4 * tokens.size());
  for (const TokenId token : tokens) raw += bytes_of(token);
  if (drops_leading_space() && raw.starts_with(' ')) raw.erase(0, 1);
  return to_valid_utf8(raw);
}

std::string_view Tokenizer::bytes_of(TokenId token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size()) return {};
  return state_->bytes[static_cast<std::size_t>(token)];
}

std::string Tokenizer::spelling_of(TokenId token) const {
  return is_control(token) ? state_->vocabulary.tokens[static_cast<std::size_t>(token)] : std::string(bytes_of(token));
}

bool Tokenizer::is_control(TokenId token) const {
  return token >= 0 && static_cast<std::size_t>(token) < size() && state_->control[static_cast<std::size_t>(token)];
}

bool Tokenizer::ends_turn(TokenId token) const {
  const std::vector<TokenId>& stops = state_->vocabulary.stops;
  return token == eos() || std::ranges::find(stops, token) != stops.end();
}

bool Tokenizer::drops_leading_space() const { return state_->vocabulary.leading_space != LeadingSpace::none; }
TokenId Tokenizer::eos() const { return state_->vocabulary.eos; }
TokenId Tokenizer::bos() const { return state_->vocabulary.bos; }
std::size_t Tokenizer::size() const { return state_->bytes.size(); }
const Vocabulary& Tokenizer::vocabulary() const { return state_->vocabulary; }
const jinja::Template* Tokenizer::chat_template() const {
  return state_->chat_template ? &*state_->chat_template : nullptr;
}

}  // namespace millrace
