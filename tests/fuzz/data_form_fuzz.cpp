// The form of a model card's data: whatever it says, it is refused or makes a form that writes itself the same again.
#include <cstdint>
#include <string_view>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/data_form.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(bytes), size);
    const auto form = muster::data::DataForm::from_json(muster::parse_json(text, "input"), "input");
    const muster::Json json = form.to_json();
    MUSTER_CHECK(muster::data::DataForm::from_json(json, "again").to_json() == json, "a form reads back");
  } catch (const muster::Error&) {
  }
  return 0;
}
