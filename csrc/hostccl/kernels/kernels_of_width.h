// Finds the loop for a type, a reduction and a number of inputs, for one vector width.
// Included as vector.h says. Must not know: which width the machine can run.
#pragma once

#include "block_copy.h"
#include "pass.h"
#include "table.h"

namespace hostccl {
namespace {

using nccl_abi::DataType;

template <class Element, class Operation>
void reduce_any_number(const ReduceArgs& args) {
  Pass<Element, Operation, 0>(args).run();
}

// For what training does all day: loops that keep every input's address in a register.
template <class Element, class Operation>
void reduce_fast(const ReduceArgs& args) {
  switch (args.ninputs) {
    case 2:
      return Pass<Element, Operation, 2>(args).run();
    case 3:
      return Pass<Element, Operation, 3>(args).run();
    case 4:
      return Pass<Element, Operation, 4>(args).run();
    default:
      return reduce_any_number<Element, Operation>(args);
  }
}

// Sign does not matter to arithmetic that wraps, nor width to bits.
template <class T>
void reduce_integers(const ReduceArgs& args) {
  using Unsigned = Native<std::make_unsigned_t<T>>;
  switch (args.reduction) {
    case Reduction::kSum:
      return reduce_fast<Unsigned, Sum>(args);
    case Reduction::kProd:
      return reduce_fast<Unsigned, Prod>(args);
    case Reduction::kMax:
      return reduce_fast<Native<T>, Max>(args);
    case Reduction::kMin:
      return reduce_fast<Native<T>, Min>(args);
    case Reduction::kAvg:
      return reduce_any_number<Native<T>, Avg>(args);
    case Reduction::kPreMulSum:
      return reduce_any_number<Unsigned, PreMulSum>(args);
    case Reduction::kBitAnd:
    case Reduction::kBitOr:
    case Reduction::kBitXor:
      break;
  }
  ReduceArgs bytes = args;
  bytes.count = args.count * sizeof(T);
  if (args.reduction == Reduction::kBitAnd) return reduce_any_number<Native<uint8_t>, BitAnd>(bytes);
  if (args.reduction == Reduction::kBitOr) return reduce_any_number<Native<uint8_t>, BitOr>(bytes);
  return reduce_any_number<Native<uint8_t>, BitXor>(bytes);
}

void reduce_bools(const ReduceArgs& args) {
  switch (args.reduction) {
    case Reduction::kSum:
    case Reduction::kMax:
    case Reduction::kBitOr:
      return reduce_any_number<Bool, BitOr>(args);
    case Reduction::kProd:
    case Reduction::kMin:
    case Reduction::kBitAnd:
      return reduce_any_number<Bool, BitAnd>(args);
    case Reduction::kBitXor:
      return reduce_any_number<Bool, BitXor>(args);
    case Reduction::kAvg:
    case Reduction::kPreMulSum:
      __builtin_trap();  // supports() says no
  }
}

template <class Element>
void reduce_floats(const ReduceArgs& args) {
  switch (args.reduction) {
    case Reduction::kSum:
      return reduce_fast<Element, Sum>(args);
    case Reduction::kProd:
      return reduce_fast<Element, Prod>(args);
    case Reduction::kMax:
      return reduce_fast<Element, Max>(args);
    case Reduction::kMin:
      return reduce_fast<Element, Min>(args);
    case Reduction::kAvg:
      return reduce_fast<Element, Avg>(args);
    case Reduction::kPreMulSum:
      return reduce_fast<Element, PreMulSum>(args);
    case Reduction::kBitAnd:
    case Reduction::kBitOr:
    case Reduction::kBitXor:
      __builtin_trap();
  }
}

// Only the product looks at both parts of a number at once.
template <class T>
void reduce_complex(const ReduceArgs& args) {
  if (args.reduction == Reduction::kProd) return reduce_any_number<Complex<T>, ComplexProd>(args);
  ReduceArgs parts = args;
  parts.count = 2 * args.count;
  return reduce_floats<Native<T>>(parts);
}

void reduce_elements(const ReduceArgs& args) {
  switch (args.type) {
    case DataType::kInt8:
      return reduce_integers<int8_t>(args);
    case DataType::kUint8:
      return reduce_integers<uint8_t>(args);
    case DataType::kInt16:
      return reduce_integers<int16_t>(args);
    case DataType::kUint16:
      return reduce_integers<uint16_t>(args);
    case DataType::kInt32:
      return reduce_integers<int32_t>(args);
    case DataType::kUint32:
      return reduce_integers<uint32_t>(args);
    case DataType::kInt64:
      return reduce_integers<int64_t>(args);
    case DataType::kUint64:
      return reduce_integers<uint64_t>(args);
    case DataType::kBool:
      return reduce_bools(args);
    case DataType::kFloat32:
      return reduce_floats<Native<float>>(args);
    case DataType::kFloat64:
      return reduce_floats<Native<double>>(args);
    case DataType::kFloat16:
      return reduce_floats<Float16>(args);
    case DataType::kBfloat16:
      return reduce_floats<Bfloat16>(args);
    case DataType::kFloat8e4m3:
      return reduce_floats<Float8e4m3>(args);
    case DataType::kFloat8e5m2:
      return reduce_floats<Float8e5m2>(args);
    case DataType::kComplex64:
      return reduce_complex<float>(args);
    case DataType::kComplex128:
      return reduce_complex<double>(args);
  }
}

constexpr KernelTable table_named(const char* name) {
  return {name, reduce_elements, copy_block, copy_block_streaming};
}

}  // namespace
}  // namespace hostccl
