#include "capture.h"

#include <algorithm>
#include <utility>

#include "device.h"
#include "submission.h"

namespace cuemu {
namespace {

using namespace cuda_abi;

thread_local CaptureMode thread_mode = kCaptureGlobal;

std::vector<std::shared_ptr<Capture>>& active() {  // guarded by submission_mutex()
  static auto& leaked = *new std::vector<std::shared_ptr<Capture>>;
  return leaked;
}

// The graph, which the caller lets go of outside the lock: it may be the last to hold it.
[[nodiscard]] std::shared_ptr<Graph> dissolve_locked(Capture& capture) {
  for (Stream* stream : capture.streams) {
    stream->capture.reset();
    stream->frontier.clear();
  }
  capture.streams.clear();
  capture.has_ended = true;
  std::erase_if(active(), [&](const auto& other) { return other.get() == &capture; });
  return std::move(capture.graph);
}

bool has_unjoined_work(const Capture& capture) {
  const auto& joined = capture.origin->frontier;
  const auto leaves = capture.graph->leaves();
  return std::any_of(leaves.begin(), leaves.end(),
                     [&](const Node* leaf) { return std::find(joined.begin(), joined.end(), leaf) == joined.end(); });
}

}  // namespace

void begin_capture(Stream& stream, CaptureMode mode) {
  static uint64_t last_id = 0;  // guarded by submission_mutex()
  const std::lock_guard lock(submission_mutex());
  require(&stream != stream.device.legacy_stream().get(), kStreamCaptureUnsupported);
  require(!stream.capture, kIllegalState);
  auto graph = std::make_shared<Graph>();
  stream.capture = std::make_shared<Capture>(Capture{.id = ++last_id,
                                                     .mode = mode,
                                                     .thread = std::this_thread::get_id(),
                                                     .origin = &stream,
                                                     .streams = {&stream},
                                                     .graph = graph,
                                                     .handle = handles().graphs.add(graph)});
  stream.frontier.clear();
  active().push_back(stream.capture);
}

GraphHandle end_capture(Stream& stream) {
  std::shared_ptr<Capture> capture;
  std::shared_ptr<Graph> graph;
  Error error = kSuccess;
  {
    const std::lock_guard lock(submission_mutex());
    capture = stream.capture;
    require(capture != nullptr, kIllegalState);
    require(capture->origin == &stream, kStreamCaptureUnmatched);
    require(capture->mode == kCaptureRelaxed || capture->thread == std::this_thread::get_id(),
            kStreamCaptureWrongThread);
    if (capture->is_invalid) {
      error = kStreamCaptureInvalidated;
    } else if (has_unjoined_work(*capture)) {
      error = kStreamCaptureUnjoined;
    }
    graph = dissolve_locked(*capture);
  }
  if (error != kSuccess) {
    handles().graphs.remove(capture->handle);
    fail(error);
  }
  return capture->handle;
}

void forget_stream(Stream& stream) {
  std::shared_ptr<Capture> capture;
  std::shared_ptr<Graph> graph;
  {
    const std::lock_guard lock(submission_mutex());
    capture = std::move(stream.capture);
    if (!capture) return;
    capture->is_invalid = true;
    std::erase(capture->streams, &stream);
    if (capture->origin != &stream) return;
    graph = dissolve_locked(*capture);  // nobody can end it any more
  }
  handles().graphs.remove(capture->handle);
}

CaptureStatus capture_status_locked(const Stream& stream) {
  if (!stream.capture) return kCaptureNone;
  return stream.capture->is_invalid ? kCaptureInvalidated : kCaptureActive;
}

void capture_op_locked(Stream& stream, const Op& op) {
  require(!stream.capture->is_invalid, kStreamCaptureInvalidated);
  Node* node = stream.capture->graph->add(op, stream.frontier);
  stream.frontier = {node};
}

void join_capture_locked(Stream& stream, const std::shared_ptr<Capture>& capture, const std::vector<Node*>& frontier) {
  require(!capture->is_invalid, kStreamCaptureInvalidated);
  require(!stream.capture || stream.capture == capture, kStreamCaptureMerge);
  require(&stream != stream.device.legacy_stream().get(), kStreamCaptureImplicit);
  if (!stream.capture) {
    stream.capture = capture;
    stream.frontier.clear();
    capture->streams.push_back(&stream);
  }
  for (Node* node : frontier) {
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end()) {
      stream.frontier.push_back(node);
    }
  }
}

void refuse_if_capturing(Stream& stream) {
  const std::lock_guard lock(submission_mutex());
  if (!stream.capture) return;
  stream.capture->is_invalid = true;
  fail(kStreamCaptureUnsupported);
}

void refuse_if_unsafe() {
  if (thread_mode == kCaptureRelaxed) return;
  const std::lock_guard lock(submission_mutex());
  bool refused = false;
  for (const auto& capture : active()) {
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool forbids =
        mine ? capture->mode != kCaptureRelaxed : capture->mode == kCaptureGlobal && thread_mode == kCaptureGlobal;
    if (!forbids) continue;
    capture->is_invalid = true;
    refused = true;
  }
  require(!refused, kStreamCaptureUnsupported);
}

void refuse_legacy_locked(const Stream& legacy) {
  for (const auto& capture : active()) {
    for (const Stream* stream : capture->streams) {
      if (&stream->device != &legacy.device || !stream->is_blocking()) continue;
      capture->is_invalid = true;
      fail(kStreamCaptureImplicit);
    }
  }
}

CaptureMode exchange_capture_mode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace cuemu
