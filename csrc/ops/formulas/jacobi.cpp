// Jacobi's methods for symmetric eigenvalues and singular values (GVL 8.5 and 8.6.3). A round
// rotates n/2 disjoint pairs of columns at once. A sweep is a round-robin tournament: every two
// columns meet once.
#include "ops/formulas/jacobi.h"

#include <functional>

#include "ops/formulas/linalg.h"
#include "ops/formulas/sort.h"

namespace onnx_native::ops {
namespace {

constexpr int64_t kMostSweeps = 30;

// The schedule of the pairs. In round k, j meets 2k - j modulo the odd number of rounds. A player
// that would meet itself meets the last one, which the rule leaves out if n is even.
class Tournament {
 public:
  Tournament(Builder& b, const Dim& n)
      : rounds_(n - 1 + Dim::mod(n, 2)),
        most_(n * kMostSweeps),
        players_(b.range(n)),
        last_(b.dim_value(rounds_)),
        instead_of_self_(b.where(b.Less(last_, b.dim_value(n)), last_, players_)) {
    if (const auto number = n.constant()) instead_of_self_ = *number % 2 == 0 ? last_ : players_;
  }

  // Returns the opponents in round k, [n].
  Value partners(Builder& b, Value k) const {
    const Value regular = b.op("Mod", {b.Sub(b.Mul(k, b.i64(2)), players_), last_});
    const Value met = b.where(b.Equal(regular, players_), instead_of_self_, regular);
    return b.where(b.Equal(players_, last_), b.op("Mod", {k, last_}), met);
  }

  // Runs rounds until a whole sweep changes nothing. `round` returns the flags of the rotated
  // columns, then the next tensors.
  Values play(Builder& b, Values carried,
              const std::function<Values(Value partners, const Values&)>& round) const {
    carried.push_back(b.i64(0));
    Values result = iterate_while(b, most_, carried, [&](Value k, const Values& state) {
      Values next = round(partners(b, k), state);
      const Value moved = b.reduce("ReduceSum", b.cast(next[0], DType::i64), {}, false);
      const Value idle = b.where(b.Equal(moved, b.i64(0)), b.Add(state.back(), b.i64(1)), b.i64(0));
      next[0] = b.Less(idle, last_);
      next.push_back(idle);
      return next;
    });
    result.pop_back();
    return result;
  }

  Value players() const { return players_; }

 private:
  Dim rounds_, most_;
  Value players_, last_, instead_of_self_;
};

// The rotation x' = c x - s x_partner that makes a pair's inner product g vanish. `excess` is the
// partner's square (or diagonal element) minus the column's own.
struct Rotation {
  Value c, s;

  Rotation(Builder& b, Value g, Value excess, Value active, Value players, Value partners) {
    const Value zero = f64(b, 0), one = f64(b, 1);
    const Value order = b.where(b.Less(players, partners), one, f64(b, -1));
    const Value sign = b.where(b.Equal(excess, zero), order, b.Sign(excess));
    const Value g2 = b.Mul(g, f64(b, 2));
    const Value root = b.Sqrt(b.Add(b.Mul(excess, excess), b.Mul(g2, g2)));
    const Value tangent = b.Div(b.Mul(g2, sign), b.Add(b.Abs(excess), root));
    const Value t = b.where(active, tangent, zero);
    c = b.Reciprocal(b.Sqrt(b.Add(b.Mul(t, t), one)));
    s = b.Mul(c, t);
  }

  Value columns(Builder& b, Value x, Value partners) const {
    return b.Sub(b.Mul(c, x), b.Mul(s, b.gather(x, partners, -1)));
  }
};

// Reorders the columns; `order` is [*, n].
Value ordered_columns(Builder& b, Value x, Value order) {
  return b.op("GatherElements", {x, b.expand(b.unsqueeze(order, {-2}), x->known_shape())},
              {{"axis", int64_t{-1}}});
}

Value batch_of_identities(Builder& b, Value a) {
  const Dim& n = a->dim(-1);
  return b.expand(identity(b, n, n), with_batch(batch_of(a), {n, n}));
}

Value square_of_norm(Builder& b, Value a) {
  return b.reduce("ReduceSumSquare", a, {-2, -1}, /*keepdims=*/true);
}

}  // namespace

OrthogonalColumns orthogonal_columns(Builder& b, Value a, bool with_v) {
  const Tournament tournament(b, a->dim(-1));
  const Value negligible = b.Mul(square_of_norm(b, a), f64(b, 1e-30));
  Values initial{a};
  if (with_v) initial.push_back(batch_of_identities(b, a));
  Values result = tournament.play(b, initial, [&](Value partners, const Values& state) {
    const Value x = state[0];
    const Value other = b.gather(x, partners, -1);
    const Value square = b.reduce("ReduceSumSquare", x, {-2}, /*keepdims=*/true);
    const Value other_square = b.gather(square, partners, -1);
    const Value g = b.reduce("ReduceSum", b.Mul(x, other), {-2}, /*keepdims=*/true);
    const Value tolerance = b.Mul(b.Sqrt(b.Mul(square, other_square)), f64(b, 1e-15));
    const Value active = b.And(b.Greater(b.Abs(g), b.Max(tolerance, negligible)),
                               b.Not(b.Equal(partners, tournament.players())));
    const Rotation rotation(b, g, b.Sub(other_square, square), active, tournament.players(),
                            partners);
    Values next{active};
    for (size_t i = 0; i < initial.size(); ++i) {
      next.push_back(rotation.columns(b, state[i], partners));
    }
    return next;
  });
  const Value squares = b.reduce("ReduceSumSquare", result[0], {-2}, /*keepdims=*/false);
  const Pair sorted = sort(b, squares, -1, /*descending=*/true);
  return {ordered_columns(b, result[0], sorted[1]),
          with_v ? ordered_columns(b, result[1], sorted[1]) : nullptr, sorted[0]};
}

namespace {

bool known_wide(Value a) {
  const auto m = a->dim(-2).constant(), n = a->dim(-1).constant();
  return m && n && *m < *n;
}

Value first_columns(Builder& b, Value x, const Dim& count) {
  const Value first = b.slice(x, -1, 0, count);
  b.refine(first, -1, count);
  return first;
}

}  // namespace

Value singular_values(Builder& b, Value a) {
  if (known_wide(a)) a = transposed(b, a);
  const Dim count = Dim::min(a->dim(-2), a->dim(-1));
  const Value squares = orthogonal_columns(b, a, /*with_v=*/false).squares;
  return b.Sqrt(first_columns(b, squares, count));
}

// Columns of W may be zero, so U is the orthogonal factor of W's QR factorization: complete, with
// W's columns up to lengths and signs.
Svd svd(Builder& b, Value a, bool full_matrices) {
  if (known_wide(a)) {
    const Svd other = svd(b, transposed(b, a), full_matrices);
    return {other.v, other.s, other.u};
  }
  const Dim& m = a->dim(-2);
  const Dim& n = a->dim(-1);
  const Dim count = Dim::min(m, n);
  const OrthogonalColumns columns = orthogonal_columns(b, a, /*with_v=*/true);
  const Reflectors q = qr_factor(b, first_columns(b, columns.w, count));
  const Dim wanted = full_matrices ? m : count;
  const Value start = b.expand(identity(b, m, wanted), with_batch(batch_of(a), {m, wanted}));
  const Value flips = b.Less(diagonals(b, q.matrix), f64(b, 0));
  const Value signs = b.where(flips, f64(b, -1), f64(b, 1));
  std::vector<Dim> padding(2 * signs->shape->size(), 0);
  padding.back() = wanted - count;
  const Value all_signs = b.pad(signs, padding, f64(b, 1));
  const Value u = b.Mul(reflected(b, q, start, /*transpose=*/false), b.unsqueeze(all_signs, {-2}));
  b.refine(u, start->known_shape());
  return {u, b.Sqrt(first_columns(b, columns.squares, count)),
          full_matrices ? columns.v : first_columns(b, columns.v, count)};
}

Eigen symmetric_eigen(Builder& b, Value a, bool with_vectors) {
  const Dim n = a->dim(-1);
  if (is_empty(a->known_shape())) return {diagonals(b, a), with_vectors ? a : nullptr};
  const Tournament tournament(b, n);
  const Value rows = row_numbers(b, n), zero = f64(b, 0);
  const Value on_diagonal = b.Equal(rows, tournament.players());
  const Value negligible = b.Mul(b.Sqrt(square_of_norm(b, a)), f64(b, 1e-18));
  const auto picked = [&](Value which, Value x) {
    return b.reduce("ReduceSum", b.where(which, x, zero), {-2}, /*keepdims=*/true);
  };
  Values initial{a};
  if (with_vectors) initial.push_back(batch_of_identities(b, a));
  Values result = tournament.play(b, initial, [&](Value partners, const Values& state) {
    const Value meets = b.And(b.Equal(rows, partners), b.Not(on_diagonal));
    const Value g = picked(meets, state[0]);
    const Value diagonal = picked(on_diagonal, state[0]);
    const Value excess = b.Sub(b.gather(diagonal, partners, -1), diagonal);
    const Value active = b.Greater(b.Abs(g), negligible);
    const Rotation rotation(b, g, excess, active, tournament.players(), partners);
    const Value half = rotation.columns(b, state[0], partners);
    const Value both = rotation.columns(b, transposed(b, half), partners);
    Values next{active, b.where(meets, zero, both)};
    if (with_vectors) next.push_back(rotation.columns(b, state[1], partners));
    return next;
  });
  const Pair sorted = sort(b, diagonals(b, result[0]), -1, /*descending=*/false);
  return {sorted[0], with_vectors ? ordered_columns(b, result[1], sorted[1]) : nullptr};
}

}  // namespace onnx_native::ops
