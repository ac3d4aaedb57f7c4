// Element-wise reduction and copy over host memory: one pass over any number of inputs, vectorised for the machine that
// runs it (baseline x86-64/generic, AVX2, AVX-512: chosen once, at first use).
// Any thread; no state. Must not know: ranks, communicators, shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../nccl_abi.h"

namespace hostccl {

// Bytes of one element; 0 for a value that is no data type.
size_t element_size(nccl_abi::DataType type);
const char* type_name(nccl_abi::DataType type);  // torch's names: "float32", "bfloat16", ...

enum class Reduction : uint8_t { kSum, kProd, kMax, kMin, kAvg, kBitAnd, kBitOr, kBitXor, kPreMulSum };
const char* reduction_name(Reduction reduction);

// Whether the pair has a meaning: bit operations need integers or bool, max/min no complex, avg and premul no bool.
bool supports(nccl_abi::DataType type, Reduction reduction);

// out[i] = inputs[0][i] op inputs[1][i] op ... in this order, for i < count; a copy also goes to `also` unless it is null.
//  * float16, bfloat16 and float8 accumulate in float32 and are rounded once;
//  * kAvg divides the sum by divisor, or by ninputs where that is 0 (integers: towards zero);
//  * kPreMulSum multiplies inputs[j] by factors[j] (in the element type; low precision in float32) before it is added;
//    factors is ignored for the others;
//  * kMax and kMin propagate NaN; bool: sum = or, prod = and, max = or, min = and; results are 0 or 1;
//  * integer overflow wraps.
// The bits are the same for every vector width, alignment and position in the range; therefore every NaN of a result is
// the same one: quiet, positive, without payload.
// out and also may be equal to any input (same position); otherwise ranges must not overlap.
// stream_also: write `also` with non-temporal stores (and a fence after them) where that is possible.
// The pair of type and reduction must be supported and ninputs at least 1: the process is aborted otherwise.
struct ReduceArgs {
  void* out = nullptr;
  void* also = nullptr;
  const void* const* inputs = nullptr;
  int ninputs = 0;
  size_t count = 0;
  nccl_abi::DataType type = nccl_abi::kFloat32;
  Reduction reduction = Reduction::kSum;
  const double* factors = nullptr;
  int divisor = 0;
  bool stream_also = false;
};
void reduce(const ReduceArgs& args);

// memcpy for blocks of any size and alignment. Pointers count only where there are bytes.
void copy(void* out, const void* in, size_t bytes);
// The same with non-temporal stores (and a fence after them): leaves no cached copy behind in the writer.
void copy_streaming(void* out, const void* in, size_t bytes);
// Output of this size is not found in the cache when it is read: better written past it.
inline constexpr size_t kTooLargeForCache = 8 * 1024 * 1024;

// "avx512", "avx2" or "baseline": what runs here; PYCOMMS_VECTOR_WIDTH=baseline|avx2|avx512 lowers it (read by the caller:
// set_vector_width before first use; false when the machine cannot do it or the name is unknown).
const char* vector_width();
bool set_vector_width(const char* name);

}  // namespace hostccl
