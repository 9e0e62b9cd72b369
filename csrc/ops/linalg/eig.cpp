// Eigenvalues and eigenvectors of square matrices, by the QR method with Wilkinson shifts on the
// complex Schur form (GVL 7.5 and 7.6). A complex matrix A + iB is represented by the real matrix
// [A -B; B A], in which a complex rotation of two rows is a real 4 x 4 matrix. The order of the
// eigenvalues and the phase of the vectors may differ from LAPACK's.
#include <array>

#include "ops/families.h"
#include "ops/formulas/complex_matrix.h"
#include "ops/formulas/sort.h"

namespace onnx_native::ops {

void register_linalg_eig(OpTable& ops) {
  for (const auto* op : {"aten::linalg_eigvals", "aten::_linalg_eigvals"}) {
    ops.def(op, Key::complex, [](Builder& b, Ignored, const Call& call) {
      return narrow(call,
                    eigen(b, complex_argument(call, 0, DType::f64), /*with_vectors=*/false).values);
    });
  }
  ops.def("aten::linalg_eig", Key::complex, [](Builder& b, Ignored, const Call& call) {
    const ComplexEigen result =
        eigen(b, complex_argument(call, 0, DType::f64), /*with_vectors=*/true);
    return std::array{narrow(call, result.values), narrow(call, result.vectors)};
  });
}

}  // namespace onnx_native::ops
