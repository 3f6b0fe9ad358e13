#include "models/text/byte_pairs.hpp"

#include <queue>
#include <tuple>
#include <vector>

namespace millrace {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

// One of a piece's symbols, in a doubly linked list that lies in a vector.
struct Symbol {
  TokenId token;  // -1: no token, or swallowed by its left neighbour
  std::size_t previous;
  std::size_t next;
};

// A pair that could be merged. It is out of date once one of its two symbols has become another.
struct Candidate {
  std::uint32_t rank;
  std::size_t position;  // of the left symbol
  std::size_t right_position;
  TokenId left;
  TokenId right;
  TokenId merged;
};

// Best rule first; of equal rules the leftmost.
struct ComesLater {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
  }
};

constexpr std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

void BytePairs::add(TokenId left, TokenId right, TokenId merged) {
  rules_.try_emplace(pair_key(left, right), Rule{static_cast<std::uint32_t>(rules_.size()), merged});
}

const BytePairs::Rule* BytePairs::find(TokenId left, TokenId right) const {
  const auto found = rules_.find(pair_key(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void BytePairs::merge(const Tokens& symbols, Tokens& tokens) const {
  if (rules_.empty()) {
    tokens.insert(tokens.end(), symbols.begin(), symbols.end());
    return;
  }
  std::vector<Symbol> list;
  list.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    list.push_back({symbols[i], i == 0 ? none : i - 1, i + 1 == symbols.size() ? none : i + 1});
  }

  std::priority_queue<Candidate, std::vector<Candidate>, ComesLater> queue;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (left == none || right == none) return;
    const TokenId a = list[left].token;
    const TokenId b = list[right].token;
    if (const Rule* rule = find(a, b)) queue.push({rule->rank, left, right, a, b, rule->merged});
  };
  for (std::size_t i = 1; i < list.size(); ++i) consider(i - 1, i);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = list[best.position];
    Symbol& right = list[best.right_position];
    if (left.token != best.left || right.token != best.right) continue;
    left.token = best.merged;
    left.next = right.next;
    right.token = -1;
    if (left.next != none) list[left.next].previous = best.position;
    consider(left.previous, best.position);
    consider(best.position, left.next);
  }

  for (std::size_t i = list.empty() ? none : 0; i != none; i = list[i].next) {
    if (list[i].token >= 0) tokens.push_back(list[i].token);
  }
}

}  // namespace millrace
