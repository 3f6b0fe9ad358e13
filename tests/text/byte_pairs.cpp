#include "models/text/byte_pairs.hpp"

#include <algorithm>
#include <map>
#include <random>

#include <doctest/doctest.h>

namespace millrace {
namespace {

Tokens merged(const BytePairs& pairs, const Tokens& symbols) {
  Tokens tokens;
  pairs.merge(symbols, tokens);
  return tokens;
}

TEST_CASE("the best rule comes first, then the leftmost place") {
  BytePairs pairs;
  pairs.add(1, 2, 12);
  pairs.add(2, 3, 23);
  pairs.add(12, 3, 123);
  pairs.add(1, 1, 11);
  CHECK(merged(pairs, {1, 2, 3}) == Tokens{123});
  CHECK(merged(pairs, {2, 3, 1, 2}) == Tokens{23, 12});
  CHECK(merged(pairs, {1, 1, 1}) == Tokens{11, 1});
  CHECK(merged(pairs, {1, 1, 2}) == Tokens{1, 12});
  CHECK(merged(pairs, {}) == Tokens{});
}

TEST_CASE("a byte without a token is left out and keeps its neighbours apart") {
  BytePairs pairs;
  pairs.add(1, 2, 12);
  CHECK(merged(pairs, {1, -1, 2}) == Tokens{1, 2});
  CHECK(merged(pairs, {-1, 1, 2, -1}) == Tokens{12});
  CHECK(merged(pairs, {-1}) == Tokens{});
}

TEST_CASE("of two rules for a pair the first one counts") {
  BytePairs pairs;
  pairs.add(1, 2, 3);
  pairs.add(1, 2, 4);
  CHECK(merged(pairs, {1, 2}) == Tokens{3});
}

// The definition, step by step: look for the best rule that applies, apply it at its leftmost place, start again.
Tokens merged_naively(const std::map<std::pair<TokenId, TokenId>, std::pair<int, TokenId>>& rules, Tokens tokens) {
  while (true) {
    auto best = rules.end();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto rule = rules.find({tokens[i], tokens[i + 1]});
      if (rule == rules.end() || (best != rules.end() && rule->second.first >= best->second.first)) continue;
      best = rule;
      place = i;
    }
    if (best == rules.end()) return tokens;
    tokens[place] = best->second.second;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST_CASE("random rules on random symbols give what the definition gives") {
  std::mt19937 random(3);
  const auto below = [&](TokenId limit) { return static_cast<TokenId>(random() % static_cast<unsigned>(limit)); };
  std::size_t merges = 0;
  for (int round = 0; round < 300; ++round) {
    BytePairs pairs;
    std::map<std::pair<TokenId, TokenId>, std::pair<int, TokenId>> rules;
    for (TokenId token = 3; token < 12; ++token) {
      const TokenId left = below(token);
      const TokenId right = below(token);
      if (!rules.try_emplace({left, right}, static_cast<int>(rules.size()), token).second) continue;
      pairs.add(left, right, token);
    }
    Tokens symbols(random() % 60);
    std::ranges::generate(symbols, [&] { return below(3); });
    const Tokens right = merged_naively(rules, symbols);
    CHECK(merged(pairs, symbols) == right);
    merges += symbols.size() - right.size();
  }
  CHECK(merges > 1000);
}

}  // namespace
}  // namespace millrace
