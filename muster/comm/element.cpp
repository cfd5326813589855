// The names of types and operations as messages and job files show them;
// a new one shows up here as a missing case.
#include "muster/comm/element.h"

namespace muster::comm {

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return "float";
    case ElementType::kDouble:
      return "double";
    case ElementType::kHalf:
      return "half";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kUint8:
      return "uint8";
  }
  return "unknown";
}

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kProduct:
      return "product";
    case Reduction::kAverage:
      return "average";
  }
  return "unknown";
}

}  // namespace muster::comm
