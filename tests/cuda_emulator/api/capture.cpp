// Exported: stream capture.

#include "capture.h"

#include <algorithm>

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "submission.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

// The status of the legacy stream cannot be told while a blocking stream is capturing.
CaptureStatus status_locked(const Stream& stream) {
  if (&stream == stream.device.legacy_stream().get()) refuse_legacy_locked(stream);
  return capture_status_locked(stream);
}

}  // namespace

CUEMU_EXPORT Error cudaStreamBeginCapture(StreamHandle stream, CaptureMode mode) {
  static Entry entry("cudaStreamBeginCapture");
  return entry.call([&] { begin_capture(*stream_of(stream), mode); });
}

CUEMU_EXPORT Error cudaStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  static Entry entry("cudaStreamEndCapture");
  return entry.call([&] {
    *graph = nullptr;
    *graph = end_capture(*stream_of(stream));
  });
}

CUEMU_EXPORT Error cudaStreamIsCapturing(StreamHandle handle, CaptureStatus* status) {
  static Entry entry("cudaStreamIsCapturing");
  return entry.call([&] {
    const auto stream = stream_of(handle);
    const std::lock_guard lock(submission_mutex());
    *status = status_locked(*stream);
  });
}

CUEMU_EXPORT Error cudaStreamGetCaptureInfo(StreamHandle handle, CaptureStatus* status, unsigned long long* id,
                                            GraphHandle* graph, const GraphNodeHandle** dependencies,
                                            const void** edges, size_t* count) {
  static Entry entry("cudaStreamGetCaptureInfo");
  return entry.call([&] {
    const auto stream = stream_of(handle);
    const std::lock_guard lock(submission_mutex());
    *status = status_locked(*stream);
    if (*status != kCaptureActive) return;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->handle;
    auto& reported = stream->reported_frontier;
    reported.clear();
    for (Node* node : stream->frontier) reported.push_back(reinterpret_cast<GraphNodeHandle>(node));
    if (dependencies != nullptr) *dependencies = reported.data();
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = reported.size();
  });
}

CUEMU_EXPORT Error cudaStreamUpdateCaptureDependencies(StreamHandle handle, GraphNodeHandle* nodes, const void*,
                                                       size_t count, unsigned flags) {
  static Entry entry("cudaStreamUpdateCaptureDependencies");
  return entry.call([&] {
    const auto stream = stream_of(handle);
    const std::lock_guard lock(submission_mutex());
    require(stream->capture != nullptr, kIllegalState);
    require(!stream->capture->is_invalid, kStreamCaptureInvalidated);
    std::vector<Node*> frontier;
    if (flags == kAddDependencies) frontier = stream->frontier;
    for (size_t i = 0; i < count; ++i) {
      auto* node = reinterpret_cast<Node*>(nodes[i]);
      require(stream->capture->graph->contains(node), kInvalidValue);
      if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) frontier.push_back(node);
    }
    stream->frontier = std::move(frontier);
  });
}

CUEMU_EXPORT Error cudaThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  static Entry entry("cudaThreadExchangeStreamCaptureMode");
  return entry.call_always([&] { *mode = exchange_capture_mode(*mode); });
}

}  // namespace cuda_abi
