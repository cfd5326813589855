// Small dense linear algebra for the searchers that model a space: Cholesky's factor and eigenvectors of symmetric
// matrices, of up to a few hundred rows. Plain loops in a fixed order, so that all machines of a kind get the same
// bits.
#pragma once

#include <cstddef>
#include <vector>

namespace muster::tuning {

// Row by row.
struct Matrix {
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t columns) : rows(rows), columns(columns), data(rows * columns) {}
  static Matrix identity(std::size_t n);

  double& operator()(std::size_t i, std::size_t j) { return data[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return data[i * columns + j]; }
  double* row(std::size_t i) { return data.data() + i * columns; }
  const double* row(std::size_t i) const { return data.data() + i * columns; }

  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> data;
};

// The lower triangle L with L L^T = `matrix`, in its place; what is above the diagonal is left alone. False if the
// matrix is not positive definite.
bool cholesky(Matrix& matrix);
// L^-1 b and L^-T b, in place.
void solve_lower(const Matrix& lower, std::vector<double>& b);
void solve_lower_transposed(const Matrix& lower, std::vector<double>& b);

struct Eigen {
  std::vector<double> values;
  Matrix vectors;  // in columns
};
// Of a symmetric matrix, by Jacobi's rotations.
Eigen eigen(Matrix matrix);

}  // namespace muster::tuning
