#include "agent/report/fill_page.h"

#include <nlohmann/json.hpp>

#include "kernels/check.h"

namespace starling {

std::string fill_page(std::string_view page, const nlohmann::ordered_json& data) {
  constexpr std::string_view kPlace = R"(<script type="application/json" id="data">)";
  const size_t at = page.find(kPlace);
  STARLING_CHECK(at != std::string_view::npos);
  std::string text(page.substr(0, at + kPlace.size()));
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  text += page.substr(at + kPlace.size());
  return text;
}

}  // namespace starling
