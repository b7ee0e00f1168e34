// SPDX-License-Identifier: Apache-2.0
/*!
 * \file capture.h
 * \brief A graph of launches while it is captured, and afterwards.
 */
#ifndef TVM_IOS_TESTS_CUDA_CAPTURE_H_
#define TVM_IOS_TESTS_CUDA_CAPTURE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/results.h"

namespace fake_driver {

/*! \brief What a launch does. */
using Work = std::function<Result()>;

/*! \brief The nodes that whatever comes next on a stream has to wait for. */
using Frontier = std::set<size_t>;

/*! \brief Launches and what each of them waits for. */
class LaunchGraph {
 public:
  /*! \brief Adds a launch after the frontier; returns the frontier behind it. */
  Frontier Add(const std::string& name, const Frontier& after, Work work);
  /*! \brief Adds the record of an event, which takes no time; returns the frontier behind it. */
  Frontier AddRecord(const std::string& name, size_t event, const Frontier& after);
  /*! \brief The events that are recorded, and the launches on the longest path to each. */
  const std::map<size_t, int>& Records() const { return records_; }
  /*! \brief Does the work of all launches, in an order of which any may be chosen; the first error
   * ends it. */
  Result Run() const;
  /*! \brief Whether everything is done when the frontier is. */
  bool IsComplete(const Frontier& end) const;
  /*! \brief Launches on the longest path. */
  int Depth() const;
  /*! \brief The names of all launches and records, each after a space. */
  std::string Names() const;

 private:
  struct Node {
    std::string name;
    Frontier after;
    int depth;  // launches on the longest path that ends here
    Work work;
  };
  Frontier Append(const std::string& name, const Frontier& after, int launches, Work work);

  std::vector<Node> nodes_;
  std::map<size_t, int> records_;
};

/*! \brief A capture that has begun and not ended. */
struct Capture {
  size_t origin;  // the stream
  int device;
  CaptureMode mode;
  std::thread::id thread;
  bool valid{true};
  LaunchGraph graph{};
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_CAPTURE_H_
