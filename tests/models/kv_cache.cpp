#include "tests/models/reference.hpp"

#include "models/kv_cache.hpp"

namespace millrace {
namespace {

constexpr std::int64_t page = KvCache::page_tokens;

Architecture two_layers() {
  Architecture architecture;
  architecture.layers = 2;
  architecture.kv_heads = 3;
  architecture.head_dim = 4;
  return architecture;
}

// Keys or values [tokens, 3, 4] whose numbers tell the token.
at::Tensor rows(std::int64_t from, std::int64_t count) {
  return at::arange(from, from + count, at::kFloat).view({count, 1, 1}).expand({count, 3, 4});
}

void put_all(KvCache& cache, std::int64_t from, std::int64_t count, float shift = 0) {
  cache.reserve(from + count);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    cache.put(layer, KvCache::Kind::key, from, rows(from, count) + shift);
    cache.put(layer, KvCache::Kind::value, from, -rows(from, count) - shift);
  }
}

TEST_CASE("what was put into the pages of a cache comes out in one piece") {
  KvCache cache(two_layers(), at::kFloat);
  put_all(cache, 0, page - 1);
  put_all(cache, page - 1, 1);
  put_all(cache, page, 2 * page + 5);
  for (const std::int64_t tokens : {1L, page, page + 1, 3 * page + 5}) {
    const at::Tensor expected = rows(0, tokens).transpose(0, 1).unsqueeze(0);
    CHECK(cache.first(1, KvCache::Kind::key, tokens).equal(expected));
    CHECK(cache.first(0, KvCache::Kind::value, tokens).equal(-expected));
  }
}

TEST_CASE("memory is for the tokens there are, and full pages of a common beginning are held once") {
  KvCache cache(two_layers(), at::kFloat);
  put_all(cache, 0, 2 * page + 5);
  CHECK(cache.pages().size() == 3);
  KvCache other(two_layers(), at::kFloat);
  put_all(other, 0, 1, 100);  // is given up
  other.begin_like(cache, 2 * page + 3);
  CHECK(other.pages().size() == 3);
  CHECK(other.pages()[1].is_same(cache.pages()[1]));
  CHECK_FALSE(other.pages()[2].is_same(cache.pages()[2]));

  put_all(other, 2 * page + 3, 4, 100);  // goes its own way
  const at::Tensor first = cache.first(0, KvCache::Kind::key, 2 * page + 5);
  CHECK(first.equal(rows(0, 2 * page + 5).transpose(0, 1).unsqueeze(0)));
  const at::Tensor second = other.first(0, KvCache::Kind::key, 2 * page + 4);
  CHECK(second.narrow(2, 0, 2 * page + 3).equal(first.narrow(2, 0, 2 * page + 3)));
  CHECK(second[0][0][2 * page + 3][0].item<float>() == 2 * page + 103);

  other.begin_like(cache, page);
  CHECK(other.pages().size() == 1);
}

}  // namespace
}  // namespace millrace
