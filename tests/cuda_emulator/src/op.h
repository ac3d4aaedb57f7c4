// A piece of device work. It is copied into graphs and run again by each launch, so what it captured lives as long as the
// last graph that holds it: destructors of captured objects are the place to release things.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "abi.h"
#include "timeline.h"

namespace cuemu {

struct Op {
  std::string what;  // for reports
  cuda_abi::NodeType type = cuda_abi::kKernelNode;
  // Runs on the stream's thread; throws Failure when the device is to fail. Empty: nothing but its place in the order.
  std::function<void()> run{};
  // External event nodes alone: asked once per launch of the graph, in program order; its result takes the place of `run`.
  std::function<std::function<void()>()> at_launch{};

  // Delays and injected failures are for what a device would call work.
  bool is_work() const { return run && type != cuda_abi::kWaitEventNode && type != cuda_abi::kEventRecordNode; }
};

}  // namespace cuemu
