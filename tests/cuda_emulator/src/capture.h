// Stream capture: work that is recorded into a graph instead of being done, and the rules of what is forbidden meanwhile.
//
// Threads: any. What is named ..._locked needs submission_mutex(), the rest takes it.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "graph.h"
#include "handles.h"
#include "stream.h"

namespace cuemu {

struct Capture {
  uint64_t id;
  cuda_abi::CaptureMode mode;
  std::thread::id thread;  // that began it
  Stream* origin;
  std::vector<Stream*> streams;  // those it has spread to, the origin included
  std::shared_ptr<Graph> graph;
  cuda_abi::GraphHandle handle;  // the program may use it before the capture ends
  bool is_invalid = false;
  bool has_ended = false;
};

void begin_capture(Stream& stream, cuda_abi::CaptureMode mode);
// The graph's handle. Throws what is wrong with the capture, which then has ended too.
cuda_abi::GraphHandle end_capture(Stream& stream);
// The stream is being destroyed.
void forget_stream(Stream& stream);

cuda_abi::CaptureStatus capture_status_locked(const Stream& stream);
// Records the work as a node of the stream's graph. Throws when the capture is invalid.
void capture_op_locked(Stream& stream, const Op& op);
// The stream joins a capture at these nodes, or merely comes after them when it is in it already.
void join_capture_locked(Stream& stream, const std::shared_ptr<Capture>& capture, const std::vector<Node*>& frontier);

// What a capture forbids; a refusal makes it invalid (docs/cuda_emulator.md).
// Any wait for or query of a stream that is capturing:
void refuse_if_capturing(Stream& stream);
// calls that may be unsafe for a capture elsewhere, such as allocation and queries:
void refuse_if_unsafe();
// use of the legacy stream while a blocking stream is capturing.
void refuse_legacy_locked(const Stream& legacy);
cuda_abi::CaptureMode exchange_capture_mode(cuda_abi::CaptureMode mode);  // of this thread

}  // namespace cuemu
