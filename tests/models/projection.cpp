#include "models/projection.hpp"

#include "tests/torch_doctest.hpp"

namespace millrace {
namespace {

TEST_CASE("few rows in inference mode give what at::linear gives, row by row the same") {
  at::manual_seed(1);
  const c10::InferenceMode no_gradients;
  for (const std::int64_t in : {8, 64, 576, 20}) {  // 20 is no multiple of a register: at::linear
    for (const std::int64_t out : {1, 3, 65, 200}) {
      const at::Tensor weight = at::randn({out, in});
      for (std::int64_t rows = 1; rows <= 18; ++rows) {
        CAPTURE(in);
        CAPTURE(out);
        CAPTURE(rows);
        const at::Tensor x = at::randn({rows, in});
        const at::Tensor result = product(x, weight);
        CHECK(at::allclose(result, at::linear(x, weight), 1e-5, 1e-4));
        if (rows <= 16 && in != 20) CHECK(at::equal(result[rows - 1], product(x.narrow(0, rows - 1, 1), weight)[0]));
        CHECK(at::equal(float_product(x, weight), result));

        // In bfloat16 sums are float32 as well: as good as the float32 product of the rounded factors.
        const at::Tensor narrow_x = x.to(at::kBFloat16), narrow_weight = weight.to(at::kBFloat16);
        const at::Tensor exact = at::linear(narrow_x.to(at::kFloat), narrow_weight.to(at::kFloat));
        const at::Tensor logits = float_product(narrow_x, narrow_weight);
        CHECK((logits.scalar_type() == at::kFloat));
        if (rows <= 16 && in == 576) {
          CHECK(at::equal(logits[rows - 1], float_product(narrow_x.narrow(0, rows - 1, 1), narrow_weight)[0]));
        }
        CHECK(at::allclose(logits, exact, 1e-5, 1e-4));
        CHECK(at::allclose(product(narrow_x, narrow_weight).to(at::kFloat), exact, 1e-2, 1e-2));
      }
    }
  }
}

TEST_CASE("views that are not contiguous and other dtypes are multiplied all the same") {
  const c10::InferenceMode no_gradients;
  const at::Tensor x = at::randn({4, 32}), weight = at::randn({16, 32});
  const at::Tensor columns = x.t().contiguous().t();
  CHECK(at::allclose(product(columns, weight), at::linear(x, weight), 1e-5, 1e-5));
  const at::Tensor wide = product(x.to(at::kDouble), weight.to(at::kDouble));
  CHECK((wide.scalar_type() == at::kDouble));
  CHECK(at::allclose(wide.to(at::kFloat), at::linear(x, weight), 1e-4, 1e-5));
}

}  // namespace
}  // namespace millrace
