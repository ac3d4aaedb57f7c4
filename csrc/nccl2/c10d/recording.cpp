#include "nccl2/c10d/recording.h"

#include <c10/core/ScalarType.h>

#include "nccl2/core/recorded.h"
#include "nccl2/python/call_site.h"

namespace pycomms::c10d_backend {
namespace {

std::atomic<bool> wants_stacks{false};

// Windows have a place of their own: nobody waits for the others there, and an entry would cost more than a put.
bool is_recorded(OpKind kind) { return kind <= OpKind::kRecvAnySource; }

uint32_t milliseconds(int64_t ns) {
  return static_cast<uint32_t>(std::min<int64_t>(ns / kMillisecond, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

std::string recorded_kinds() {
  std::string names;
  for (const OpTraits& op : kOpTraits) names += std::string(op.name) + "\n";
  return names;
}

std::string recorded_dtypes() {
  std::string names;
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    names += type == c10::ScalarType::Undefined ? "undefined" : c10::getDtypeNames(type).first;
    names += "\n";
  }
  return names;
}

std::string recorded_reductions() { return "\nsum\navg\nproduct\nmin\nmax\nband\nbor\nbxor\npremul_sum\n"; }

void record_stacks(bool wanted) { wants_stacks = wanted; }

recorder::Text recorded_site(recorder::Ring& ring, recorder::Text* stack) {
  if (wants_stacks.load(std::memory_order_relaxed)) [[unlikely]]
    *stack = python::call_stack(ring);
  return python::call_site(ring);
}

void add_tensors(recorder::Sizes& sizes, at::ArrayRef<at::Tensor> tensors) {
  sizes.begin(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (sizes.was_cut()) return;
    sizes.tensor(static_cast<uint8_t>(tensor.scalar_type()), tensor.sizes());
  }
}

uint64_t bytes_of(at::ArrayRef<at::Tensor> tensors) {
  uint64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.is_sparse() ? 0 : static_cast<uint64_t>(tensor.nbytes());
  return bytes;
}

recorder::Entry record_op(const Communicator& communicator, const RecordedOp& op, at::ArrayRef<at::Tensor> inputs,
                          at::ArrayRef<at::Tensor> outputs) {
  recorder::Ring* ring = recorder::process_ring();
  if (ring == nullptr || !is_recorded(op.kind)) return {};
  recorder::Sizes sizes;
  add_tensors(sizes, inputs);
  add_tensors(sizes, outputs);
  for (const at::IntArrayRef splits : {op.args.input_splits, op.args.output_splits}) {
    sizes.begin(splits.size());
    for (const int64_t split : splits) sizes.number(static_cast<uint64_t>(split));
  }
  recorder::Issue issue;
  issue.group = communicator.recorded_as();
  issue.kind = static_cast<uint8_t>(op.kind);
  if (is_point_to_point(op.kind)) {
    issue.flags |= recorder::kPointToPoint;
    issue.sequence = ring->next_request(issue.group);
  } else {
    issue.sequence = static_cast<uint32_t>(op.sequence != kNextSequence ? op.sequence : communicator.sequence() + 1);
  }
  if (op.is_async) issue.flags |= recorder::kAsync;
  if (op.is_coalesced) issue.flags |= recorder::kCoalesced;
  issue.starts_now = op.runs_here;
  issue.reduction = op.args.reduction;
  issue.root = op.args.root;
  issue.peer = op.args.peer;
  issue.tag = op.args.tag;
  issue.timeout_ms = milliseconds(op.timeout_ns);
  issue.bytes = bytes_of(inputs);
  issue.stream = op.stream;
  if (op.stream != 0) issue.flags |= recorder::kTimesFound;
  issue.site = recorded_site(*ring, &issue.stack);
  return ring->begin(issue, sizes);
}

void end_record(const recorder::Entry& entry, const Error& error, bool was_refused) {
  if (!entry) return;
  const recorder::State state = was_refused ? recorder::State::kRejected : recorded_state(error);
  entry.end(state, now_ns(), error ? std::string_view(error.detail().message) : std::string_view());
}

}  // namespace pycomms::c10d_backend
