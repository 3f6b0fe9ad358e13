#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "models/text/pre_tokenizer.hpp"
#include "models/text/tokenizer_json.hpp"

namespace millrace {
namespace {

using nlohmann::ordered_json;

ordered_json sequence(const char* key, ordered_json steps) { return {{"type", "Sequence"}, {key, std::move(steps)}}; }

ordered_json space_sign_to_space() {
  return {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
}

ordered_json pre_tokenizer_of(const Vocabulary& vocabulary) {
  if (vocabulary.spelling == Spelling::characters) {
    const char* scheme = vocabulary.leading_space == LeadingSpace::at_start   ? "first"
                         : vocabulary.leading_space == LeadingSpace::at_parts ? "always"
                                                                              : "never";
    if (vocabulary.leading_space == LeadingSpace::always) return nullptr;  // the normalizer does it
    return {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", false}};
  }
  const auto byte_level = [](bool use_pattern) -> ordered_json {
    return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_pattern}};
  };
  ordered_json steps = ordered_json::array();
  if (vocabulary.pre_tokenizer == "smollm") {
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    steps.push_back(byte_level(true));
    return sequence("pretokenizers", std::move(steps));
  }
  for (const std::string& pattern : patterns_of(vocabulary.pre_tokenizer, vocabulary.patterns)) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(byte_level(false));
  return sequence("pretokenizers", std::move(steps));
}

ordered_json normalizer_of(const Vocabulary& vocabulary) {
  if (vocabulary.compose) return {{"type", "NFC"}};
  if (vocabulary.leading_space != LeadingSpace::always) return nullptr;
  ordered_json steps = ordered_json::array();
  steps.push_back({{"type", "Prepend"}, {"prepend", "\u2581"}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}});
  return sequence("normalizers", std::move(steps));
}

ordered_json decoder_of(const Vocabulary& vocabulary) {
  if (vocabulary.spelling == Spelling::bytes) {
    return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  }
  ordered_json steps = ordered_json::array();
  steps.push_back(space_sign_to_space());
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (vocabulary.leading_space != LeadingSpace::none) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return sequence("decoders", std::move(steps));
}

}  // namespace

ordered_json tokenizer_json_of(const Vocabulary& vocabulary) {
  const auto has = [](const std::vector<TokenId>& list, TokenId token) {
    return std::ranges::find(list, token) != list.end();
  };
  std::map<TokenId, bool> added;  // whether it is a control token
  for (const TokenId token : vocabulary.added) added[token] = false;
  for (const TokenId token : vocabulary.control) added[token] = true;
  ordered_json added_tokens = ordered_json::array();
  for (const auto& [token, is_control] : added) {
    added_tokens.push_back({{"id", token},
                            {"content", vocabulary.tokens[static_cast<std::size_t>(token)]},
                            {"single_word", false},
                            {"lstrip", has(vocabulary.eats_space_before, token)},
                            {"rstrip", has(vocabulary.eats_space_after, token)},
                            {"normalized", false},
                            {"special", is_control}});
  }
  // Among tokens of the same text the first one is the one that counts, here as there.
  ordered_json::object_t tokens;
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    const std::string& spelling = vocabulary.tokens[token];
    if (!spelling.empty()) static_cast<ordered_json::object_t::Container&>(tokens).emplace_back(spelling, token);
  }
  const bool falls_back = vocabulary.spelling == Spelling::characters;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", normalizer_of(vocabulary)},
          {"pre_tokenizer", pre_tokenizer_of(vocabulary)},
          {"post_processor", nullptr},
          {"decoder", decoder_of(vocabulary)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", falls_back},
            {"ignore_merges", vocabulary.whole_pieces},
            {"vocab", std::move(tokens)},
            {"merges", vocabulary.merges}}}};
}

}  // namespace millrace
