// Cholesky by rows, triangular solves, and Jacobi's method with cyclic sweeps.
// No blocking and no threads: matrices here have a few hundred rows, and the order of sums is part of the result.
#include "muster/tuning/dense.h"

#include <cmath>

namespace muster::tuning {

Matrix Matrix::identity(std::size_t n) {
  Matrix one(n, n);
  for (std::size_t i = 0; i < n; ++i)
    one(i, i) = 1.0;
  return one;
}

bool cholesky(Matrix& matrix) {
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    double* const row = matrix.row(i);
    for (std::size_t j = 0; j <= i; ++j) {
      const double* const other = matrix.row(j);
      double sum = row[j];
      for (std::size_t k = 0; k < j; ++k)
        sum -= row[k] * other[k];
      if (j < i) {
        row[j] = sum / other[j];
      } else if (!(sum > 0.0)) {
        return false;
      } else {
        row[i] = std::sqrt(sum);
      }
    }
  }
  return true;
}

void solve_lower(const Matrix& lower, std::vector<double>& b) {
  for (std::size_t i = 0; i < lower.rows; ++i) {
    const double* const row = lower.row(i);
    for (std::size_t k = 0; k < i; ++k)
      b[i] -= row[k] * b[k];
    b[i] /= row[i];
  }
}

void solve_lower_transposed(const Matrix& lower, std::vector<double>& b) {
  for (std::size_t i = lower.rows; i-- > 0;) {
    const double* const row = lower.row(i);
    b[i] /= row[i];
    for (std::size_t k = 0; k < i; ++k)
      b[k] -= row[k] * b[i];
  }
}

Eigen eigen(Matrix matrix) {
  const std::size_t n = matrix.rows;
  Matrix vectors = Matrix::identity(n);
  constexpr int kSweeps = 60;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double off = 0.0;
    double diagonal = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      diagonal += matrix(i, i) * matrix(i, i);
      for (std::size_t j = 0; j < i; ++j)
        off += matrix(i, j) * matrix(i, j);
    }
    if (off <= 1e-28 * diagonal) break;
    for (std::size_t p = 0; p + 1 < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (matrix(p, q) == 0.0) continue;
        const double theta = (matrix(q, q) - matrix(p, p)) / (2.0 * matrix(p, q));
        const double t = (theta >= 0.0 ? 1.0 : -1.0) / (std::abs(theta) + std::sqrt(theta * theta + 1.0));
        const double c = 1.0 / std::sqrt(t * t + 1.0);
        const double s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double kp = matrix(k, p);
          const double kq = matrix(k, q);
          matrix(k, p) = c * kp - s * kq;
          matrix(k, q) = s * kp + c * kq;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double pk = matrix(p, k);
          const double qk = matrix(q, k);
          matrix(p, k) = c * pk - s * qk;
          matrix(q, k) = s * pk + c * qk;
          const double vp = vectors(k, p);
          const double vq = vectors(k, q);
          vectors(k, p) = c * vp - s * vq;
          vectors(k, q) = s * vp + c * vq;
        }
      }
    }
  }
  Eigen result{{}, std::move(vectors)};
  for (std::size_t i = 0; i < n; ++i)
    result.values.push_back(matrix(i, i));
  return result;
}

}  // namespace muster::tuning
