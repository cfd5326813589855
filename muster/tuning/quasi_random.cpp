// The Sobol sequence: primitive polynomials, direction numbers by Bratley and Fox's recurrence, points by Gray codes.
// Everything is computed when a sequence is made: milliseconds for tens of dimensions, no table.
#include "muster/tuning/quasi_random.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "muster/base/check.h"
#include "muster/base/random.h"

namespace muster::tuning {
namespace {

using Directions = QuasiRandom::Directions;
constexpr int kBits = QuasiRandom::kBits;

// x^power modulo `polynomial` of that degree, over GF(2).
std::uint32_t power_of_x(std::uint64_t power, std::uint32_t polynomial, int degree) {
  const auto times = [&](std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (; b != 0; b >>= 1) {
      if (b & 1) product ^= a;
      a <<= 1;
      if (a >> degree & 1) a ^= polynomial;
    }
    return product;
  };
  std::uint32_t result = 1;
  std::uint32_t square = degree == 1 ? (2 ^ polynomial) & 1 : 2;
  for (; power != 0; power >>= 1) {
    if (power & 1) result = times(result, square);
    square = times(square, square);
  }
  return result;
}

// Whether x generates all 2^degree - 1 non-zero residues.
bool is_primitive(std::uint32_t polynomial, int degree) {
  const std::uint64_t order = (std::uint64_t{1} << degree) - 1;
  if (power_of_x(order, polynomial, degree) != 1) return false;
  std::uint64_t rest = order;
  for (std::uint64_t prime = 2; prime <= rest; ++prime) {
    if (rest % prime != 0) continue;
    if (order != 1 && power_of_x(order / prime, polynomial, degree) == 1) return false;
    while (rest % prime == 0)
      rest /= prime;
  }
  return true;
}

// v_k = 2^-k m_k, of m_1 .. m_s given, the others by the polynomial.
Directions extended(const std::vector<std::uint32_t>& first, std::uint32_t polynomial) {
  const int degree = static_cast<int>(first.size());
  Directions v{};
  for (int k = 0; k < kBits; ++k) {
    if (k < degree) {
      v[k] = first[k] << (kBits - 1 - k);
      continue;
    }
    v[k] = v[k - degree] ^ (v[k - degree] >> degree);
    for (int i = 1; i < degree; ++i) {
      if (polynomial >> (degree - i) & 1) v[k] ^= v[k - i];
    }
  }
  return v;
}

// Row `bit` of the generator matrix for the first 2^m points: which of the m index bits make up that digit.
std::uint32_t matrix_row(const Directions& v, int bit, int m) {
  std::uint32_t row = 0;
  for (int k = 0; k < m; ++k)
    row |= (v[k] >> (kBits - 1 - bit) & 1) << k;
  return row;
}

bool independent(std::vector<std::uint32_t> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == 0) return false;
    const std::uint32_t pivot = rows[i] & -rows[i];
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      if (rows[j] & pivot) rows[j] ^= rows[i];
    }
  }
  return true;
}

// The smallest t for which 2^m points of the two dimensions are a (t, m, 2)-net.
int t_value(const Directions& a, const Directions& b, int m) {
  for (int t = 0; t < m; ++t) {
    bool all = true;
    for (int from_a = 0; all && from_a <= m - t; ++from_a) {
      std::vector<std::uint32_t> rows;
      for (int i = 0; i < from_a; ++i)
        rows.push_back(matrix_row(a, i, m));
      for (int i = 0; i < m - t - from_a; ++i)
        rows.push_back(matrix_row(b, i, m));
      all = independent(std::move(rows));
    }
    if (all) return t;
  }
  return m;
}

int badness(const Directions& candidate, const std::vector<Directions>& earlier) {
  constexpr std::size_t kCompared =
      12;  // the first ones, which matter most, and the last ones, whose degree is the same
  int sum = 0;
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (i >= kCompared / 2 && i + kCompared / 2 < earlier.size()) continue;
    for (int m = 2; m <= 8; ++m)
      sum += t_value(earlier[i], candidate, m);
  }
  return sum;
}

Directions best_directions(std::uint32_t polynomial, const std::vector<Directions>& earlier) {
  constexpr int kCandidates = 24;
  const int degree = std::bit_width(polynomial) - 1;
  RandomStream random({.seed = 0, .purpose = Purpose::kSearch, .step = polynomial});
  Directions best{};
  std::vector<std::uint32_t> chosen;
  int least = std::numeric_limits<int>::max();
  for (int candidate = 0; candidate < (degree == 1 ? 1 : kCandidates); ++candidate) {
    std::vector<std::uint32_t> first;
    for (int i = 0; i < degree; ++i)
      first.push_back(static_cast<std::uint32_t>(2 * random.below(std::uint64_t{1} << i) + 1));
    const Directions made = extended(first, polynomial);
    const int bad = badness(made, earlier);
    if (bad > least || (bad == least && first <= chosen)) continue;  // of equals the largest, whoever came first
    least = bad;
    best = made;
    chosen = first;
  }
  return best;
}

// Multiplies by a random lower triangular matrix with ones on the diagonal: digit i may be changed by digits before it.
void scramble(Directions& directions, RandomStream& random) {
  std::array<std::uint32_t, kBits> rows{};
  for (int i = 0; i < kBits; ++i) {
    const std::uint32_t before = i == 0 ? 0 : ~std::uint32_t{0} << (kBits - i);
    rows[i] = (random.next_u32() & before) | std::uint32_t{1} << (kBits - 1 - i);
  }
  for (std::uint32_t& direction : directions) {
    std::uint32_t turned = 0;
    for (int i = 0; i < kBits; ++i)
      turned |= static_cast<std::uint32_t>(std::popcount(rows[i] & direction) & 1) << (kBits - 1 - i);
    direction = turned;
  }
}

}  // namespace

std::vector<std::uint32_t> primitive_polynomials(std::size_t count) {
  std::vector<std::uint32_t> found;
  for (int degree = 1; degree <= 16 && found.size() < count; ++degree) {
    for (std::uint32_t middle = 0; middle < std::uint32_t{1} << (degree - 1) && found.size() < count; ++middle) {
      const std::uint32_t polynomial = std::uint32_t{1} << degree | middle << 1 | 1;
      if (is_primitive(polynomial, degree)) found.push_back(polynomial);
    }
  }
  return found;
}

QuasiRandom::QuasiRandom(std::size_t dimensions, std::optional<std::uint64_t> seed) {
  MUSTER_CHECK(dimensions <= 2000, "so many dimensions are not made");
  if (dimensions == 0) return;
  Directions plain{};
  for (int k = 0; k < kBits; ++k)
    plain[k] = std::uint32_t{1} << (kBits - 1 - k);
  directions_.push_back(plain);
  for (const std::uint32_t polynomial : primitive_polynomials(dimensions - 1))
    directions_.push_back(best_directions(polynomial, directions_));
  shifts_.resize(dimensions);
  if (!seed) return;
  RandomStream random({.seed = *seed, .purpose = Purpose::kSearch, .epoch = 1});
  for (std::size_t i = 0; i < dimensions; ++i) {
    scramble(directions_[i], random);
    shifts_[i] = random.next_u32();
  }
}

std::vector<double> QuasiRandom::point(std::uint64_t index) const {
  const auto gray = static_cast<std::uint32_t>(index ^ (index >> 1));
  std::vector<double> point;
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    std::uint32_t digits = shifts_[i];
    for (int k = 0; k < kBits; ++k) {
      if (gray >> k & 1) digits ^= directions_[i][k];
    }
    point.push_back(static_cast<double>(digits) * 0x1p-32);
  }
  return point;
}

}  // namespace muster::tuning
