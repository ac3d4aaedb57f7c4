// Events of a device: marks on its streams that other streams, and we, can wait for.
// Any thread. Must not know: communicators, torch.
#pragma once

#include "nccl2/driver/nccl_api.h"

namespace pycomms {

using EventHandle = void*;

class DeviceEvents {
 public:
  virtual ~DeviceEvents() = default;

  enum class State { kPassed, kPending, kFailed };

  // A mark behind all work that is on the stream now. `timed`: elapsed_ms works between two such.
  virtual Result<EventHandle> record(StreamHandle stream, bool timed) = 0;
  // Makes the stream wait for the mark.
  virtual Status wait(StreamHandle stream, EventHandle event) = 0;
  // Never blocks. On kFailed *why tells: the device is lost to this process.
  virtual State query(EventHandle event, std::string* why) = 0;
  virtual Result<float> elapsed_ms(EventHandle start, EventHandle end) = 0;
  // Gives a mark back. One recorded under capture belongs to the graph and is not used again.
  virtual void release(EventHandle event, bool timed, bool captured) = 0;

  virtual bool is_capturing(StreamHandle stream) = 0;
  // The calling thread may ask for marks while another one captures a graph.
  virtual void allow_queries_during_capture() = 0;
};

}  // namespace pycomms
