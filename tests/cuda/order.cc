// SPDX-License-Identifier: Apache-2.0
#include "cuda/order.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

namespace fake_driver {

Order::Order() : kind_(Kind::kIssued) {
  const char* wanted = std::getenv("TVM_IOS_FAKE_DRIVER_ORDER");
  const std::string order = wanted == nullptr ? "" : wanted;
  if (order.empty() || order == "issued") return;
  kind_ = order == "reverse" ? Kind::kReverse : Kind::kRandom;
  if (kind_ == Kind::kRandom) random_.seed(static_cast<unsigned>(std::stoul(order)));
}

std::vector<unsigned> Order::Of(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (kind_ == Kind::kReverse) std::reverse(numbers.begin(), numbers.end());
  if (kind_ == Kind::kRandom) std::shuffle(numbers.begin(), numbers.end(), random_);
  return numbers;
}

size_t Order::Choose(size_t count) {
  if (kind_ == Kind::kIssued) return 0;
  if (kind_ == Kind::kReverse) return count - 1;
  return std::uniform_int_distribution<size_t>(0, count - 1)(random_);
}

}  // namespace fake_driver
