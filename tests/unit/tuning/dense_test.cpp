// Linear algebra against the definitions: what is multiplied back must be what was given.
#include "muster/tuning/dense.h"

#include <cmath>

#include <gtest/gtest.h>

#include "muster/base/random.h"

namespace muster::tuning {
namespace {

Matrix positive(std::size_t n) {
  RandomStream random({.seed = n});
  Matrix a(n, n), product(n, n);
  for (double& x : a.data)
    x = random.normal();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k)
        product(i, j) += a(i, k) * a(j, k);
    }
    product(i, i) += 0.1;
  }
  return product;
}

TEST(DenseTest, CholeskySolves) {
  for (const std::size_t n : {1u, 2u, 7u, 33u}) {
    const Matrix a = positive(n);
    Matrix factor = a;
    ASSERT_TRUE(cholesky(factor));
    std::vector<double> x(n, 1.0);
    x[n / 2] = -2.0;
    std::vector<double> b(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j)
        b[i] += a(i, j) * x[j];
    }
    solve_lower(factor, b);
    solve_lower_transposed(factor, b);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(b[i], x[i], 1e-8) << n;
  }
  Matrix indefinite = Matrix::identity(2);
  indefinite(1, 0) = indefinite(0, 1) = 2.0;
  EXPECT_FALSE(cholesky(indefinite));
}

TEST(DenseTest, EigenvectorsAreOrthonormalAndGiveTheMatrixBack) {
  for (const std::size_t n : {1u, 2u, 5u, 20u}) {
    const Matrix a = positive(n);
    const Eigen parts = eigen(a);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double entry = 0.0, inner = 0.0;
        for (std::size_t k = 0; k < n; ++k) {
          entry += parts.vectors(i, k) * parts.values[k] * parts.vectors(j, k);
          inner += parts.vectors(k, i) * parts.vectors(k, j);
        }
        EXPECT_NEAR(entry, a(i, j), 1e-9 * static_cast<double>(n));
        EXPECT_NEAR(inner, i == j ? 1.0 : 0.0, 1e-10);
      }
    }
  }
}

}  // namespace
}  // namespace muster::tuning
