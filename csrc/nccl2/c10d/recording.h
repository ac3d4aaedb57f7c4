// Opens the flight recorder's entry of an operation: what it is, on which tensors, from which line of the program.
// Of the issuing thread. Must not know: how the operation runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "nccl2/c10d/convert.h"
#include "nccl2/core/communicator.h"
#include "recorder/ring.h"

namespace pycomms::c10d_backend {

// What its arguments say beside the tensors.
struct RecordedArgs {
  uint8_t reduction = 0;  // a number of c10d::ReduceOp::RedOpType, plus one; 0: none
  int root = -1;
  int peer = -1;
  int tag = 0;
  at::IntArrayRef input_splits = {}, output_splits = {};
};
inline constexpr int kRecordedAnySource = -2;

inline uint8_t recorded(const ::c10d::ReduceOp& reduction) { return static_cast<uint8_t>(reduction.op_) + 1; }

// The names of these numbers, in the order of the numbers, separated by newlines.
std::string recorded_kinds();
std::string recorded_dtypes();
std::string recorded_reductions();

inline constexpr uint64_t kNextSequence = ~uint64_t{0};  // of the communicator

struct RecordedOp {
  OpKind kind;
  RecordedArgs args;
  int64_t timeout_ns;
  bool is_async;
  bool is_coalesced;
  bool runs_here;  // on this thread, at once
  uint64_t sequence = kNextSequence;
  uint64_t stream = 0;
};
// Empty when nothing is recorded.
recorder::Entry record_op(const Communicator& communicator, const RecordedOp& op, at::ArrayRef<at::Tensor> inputs,
                          at::ArrayRef<at::Tensor> outputs);

// It has ended on the issuing thread, or was not issued at all. was_refused: it has taken no place in the sequence.
void end_record(const recorder::Entry& entry, const Error& error, bool was_refused);

// Whether call stacks are wanted beside call sites.
void record_stacks(bool wanted);
recorder::Text recorded_site(recorder::Ring& ring, recorder::Text* stack);
void add_tensors(recorder::Sizes& sizes, at::ArrayRef<at::Tensor> tensors);
uint64_t bytes_of(at::ArrayRef<at::Tensor> tensors);

}  // namespace pycomms::c10d_backend
