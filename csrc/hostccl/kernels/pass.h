// One pass over the memory of a reduction. The same operations are applied to whole vectors and to the rest at the ends,
// so the result of an element does not depend on where it lies.
// Included as vector.h says. Must not know: ranks, which types and reductions go together.
#pragma once

#include "elements.h"
#include "operations.h"
#include "vector.h"

namespace hostccl {
namespace {

// kInputs: how many there are, or 0 to read it at run time.
template <class Element, class Operation, int kInputs>
class Pass {
 public:
  PYCOMMS_ALWAYS_INLINE explicit Pass(const ReduceArgs& args)
      : args_(args), out_(static_cast<char*>(args.out)), also_(static_cast<char*>(args.also)), constants_(args) {
    for (int j = 0; j < kInputs; ++j) {
      input_[j] = static_cast<const char*>(args.inputs[j]);
      if constexpr (Operation::kHasFactors) factor_[j] = constants_.factor(j);
    }
  }

  PYCOMMS_ALWAYS_INLINE void run() const {
    const size_t bytes = args_.count * Element::kBytes;
    bool streaming = args_.stream_also && also_;
    size_t at = 0;
    if (bytes >= kWorthAligning) {
      // Vectors that straddle cache lines cost twice.
      const size_t head = bytes_to_alignment(streaming ? also_ : out_, kStep);
      if (head % Element::kBytes == 0) {
        at = head;
      } else {
        streaming = false;
      }
      if (at) rest(args_, 0, at);
    } else {
      streaming = false;
    }
    for (; bytes - at >= kBlock; at += kBlock) step<kUnroll>(at, streaming);
    if (at < bytes) rest(args_, at, bytes);
    if (streaming) stream_fence();
  }

 private:
  using Raw = typename Element::Raw;
  using Value = typename Element::Value;
  using Accumulator = typename Element::Accumulator;

  static constexpr size_t kStep = sizeof(Raw);
  static constexpr int kParts = Accumulator::kParts;
  static constexpr int kUnroll = (kInputs ? 4 : 2) / kParts;
  static constexpr size_t kBlock = kUnroll * kStep;
  static constexpr size_t kWorthAligning = 1024;

  // What is too short for the loop: one copy of this code for all numbers of inputs.
  [[gnu::noinline]] static void rest(const ReduceArgs& args, size_t from, size_t to) {
    if constexpr (kInputs != 0) {
      return Pass<Element, Operation, 0>::rest(args, from, to);
    } else {
      const Pass pass(args);
      for (; to - from >= kStep; from += kStep) pass.template step<1>(from, false);
      if (from < to) pass.step_first(from, to - from);
    }
  }

  PYCOMMS_ALWAYS_INLINE const char* input(int j) const {
    return kInputs ? input_[j] : static_cast<const char*>(args_.inputs[j]);
  }

  PYCOMMS_ALWAYS_INLINE Value factor(int j) const {
    if constexpr (!Operation::kHasFactors) return Value{};
    return kInputs ? factor_[j] : constants_.factor(j);
  }

  PYCOMMS_ALWAYS_INLINE static Accumulator prepare(Raw raw, Value factor) {
    Accumulator x = Element::widen(raw);
    repeat<kParts>([&](int p) PYCOMMS_ALWAYS_INLINE_LAMBDA {  //
      x.part[p] = Operation::template prepare<Value>(x.part[p], factor);
    });
    return x;
  }

  PYCOMMS_ALWAYS_INLINE static void combine(Accumulator& acc, const Accumulator& x) {
    repeat<kParts>([&](int p) PYCOMMS_ALWAYS_INLINE_LAMBDA {
      acc.part[p] = Operation::template combine<Value>(acc.part[p], x.part[p]);
    });
  }

  PYCOMMS_ALWAYS_INLINE Raw finish(Accumulator acc) const {
    repeat<kParts>([&](int p) PYCOMMS_ALWAYS_INLINE_LAMBDA {
      acc.part[p] = Operation::template finish<Value>(acc.part[p], constants_);
    });
    return Element::narrow(acc);
  }

  // All loads come before the stores: outputs may be inputs.
  template <int kVectors>
  PYCOMMS_ALWAYS_INLINE void step(size_t at, bool streaming) const {
    Accumulator acc[kVectors];
    const char* first = input(0) + at;
    const Value first_factor = factor(0);
    repeat<kVectors>(
        [&](int v) PYCOMMS_ALWAYS_INLINE_LAMBDA { acc[v] = prepare(load<Raw>(first + v * kStep), first_factor); });
    const auto add_input = [&](int j) PYCOMMS_ALWAYS_INLINE_LAMBDA {
      const char* from = input(j) + at;
      const Value scale = factor(j);
      repeat<kVectors>(
          [&](int v) PYCOMMS_ALWAYS_INLINE_LAMBDA { combine(acc[v], prepare(load<Raw>(from + v * kStep), scale)); });
    };
    if constexpr (kInputs != 0) {
      repeat<kInputs - 1>([&](int j) PYCOMMS_ALWAYS_INLINE_LAMBDA { add_input(j + 1); });
    } else {
      for (int j = 1; j < args_.ninputs; ++j) add_input(j);
    }
    Raw result[kVectors];
    repeat<kVectors>([&](int v) PYCOMMS_ALWAYS_INLINE_LAMBDA { result[v] = finish(acc[v]); });
    repeat<kVectors>([&](int v) PYCOMMS_ALWAYS_INLINE_LAMBDA { store(out_ + at + v * kStep, result[v]); });
    if (streaming) {
      repeat<kVectors>([&](int v) PYCOMMS_ALWAYS_INLINE_LAMBDA { store_streaming(also_ + at + v * kStep, result[v]); });
    } else if (also_) {
      repeat<kVectors>([&](int v) PYCOMMS_ALWAYS_INLINE_LAMBDA { store(also_ + at + v * kStep, result[v]); });
    }
  }

  // Fewer bytes than a vector.
  PYCOMMS_ALWAYS_INLINE void step_first(size_t at, size_t bytes) const {
    Accumulator acc = prepare(load_first<Raw>(input(0) + at, bytes), factor(0));
    for (int j = 1; j < args_.ninputs; ++j) combine(acc, prepare(load_first<Raw>(input(j) + at, bytes), factor(j)));
    const Raw result = finish(acc);
    store_first(out_ + at, result, bytes);
    if (also_) store_first(also_ + at, result, bytes);
  }

  template <class, class, int>
  friend class Pass;

  const ReduceArgs& args_;
  char* const out_;
  char* const also_;
  const Constants<Value> constants_;
  const char* input_[kInputs ? kInputs : 1];
  Value factor_[kInputs ? kInputs : 1];
};

}  // namespace
}  // namespace hostccl
