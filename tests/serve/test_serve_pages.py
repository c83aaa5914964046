"""The pages in a real browser: what they show is what the exact model says."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import squaresvm
from support.server import serving

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


def show(browser, width, *, dark=False):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def until(condition, what):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.03)
    raise AssertionError(f"waited in vain for {what}")


def text(browser, id):
    return browser.find_element(By.ID, id).text


@pytest.fixture(autouse=True)
def fresh_log(browser):
    """Leave to each test what the browser complains of in its own pages only."""
    yield
    browser.get("about:blank")  # What is still being asked for ends here, and is said before the next test.
    complaints(browser)


def complaints(browser):
    return [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def board_of(client, browser):
    """Return what the server has for the board of the page."""
    name = browser.execute_script("return sessionStorage.getItem('squaresvm-board')")
    return client.post("/play/board", {"board": name}).json


def requests_of(browser):
    return int(browser.find_element(By.ID, "board").get_attribute("data-requests") or 0)


def click_board(browser, x, y):
    """Click where (x, y) of the square is, and wait for the answer."""
    before = requests_of(browser)
    canvas = browser.find_element(By.ID, "board")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    size = canvas.size["width"]
    ActionChains(browser).move_to_element_with_offset(
        canvas, round(x / 1.04 * size / 2), round(-y / 1.04 * size / 2)
    ).click().perform()
    until(lambda: requests_of(browser) > before, "the answer to a click")


def pixel(browser, x, y):
    """Return the colour of the board at a point of the square."""
    script = """
    const board = document.getElementById('board'), pen = board.getContext('2d');
    const at = (v) => Math.round(board.width * v);
    const [x, y] = [(arguments[0] / 1.04 + 1) / 2, (1 - arguments[1] / 1.04) / 2];
    return [...pen.getImageData(at(x), at(y), 1, 1).data];
    """
    return np.array(browser.execute_script(script, x, y)[:3])


def test_points_set_and_removed_change_the_boundary_as_the_exact_model_says(tmp_path, browser):
    with serving(tmp_path) as client:
        show(browser, 1280)
        browser.get(f"http://127.0.0.1:{client.port}/play")
        until(lambda: "80 points" in text(browser, "figures"), "the first data set")
        browser.find_element(By.ID, "clear").click()
        until(lambda: "both colours" in text(browser, "figures"), "an empty board")
        for x, y in ((-0.5, -0.5), (0.5, 0.5)):
            click_board(browser, x, y)
        browser.find_element(By.CSS_SELECTOR, "input[name=tool][value='1']").click()
        for x, y in ((-0.5, 0.5), (0.5, -0.5), (0.0, 0.0)):
            click_board(browser, x, y)
        found = board_of(client, browser)
        exact(found)
        assert found["last"]["action"] == "learn"
        grid = found["model"]["grid"]
        middle = found["model"]["decision"][grid * (grid // 2) + grid // 2]
        assert f"decision value {middle:.2f}" in text(browser, "here")  # The last click was there.
        orange = pixel(browser, 0.12, 0.0)  # Beside the point in the middle.
        assert orange[0] > orange[2]
        browser.find_element(By.CSS_SELECTOR, "input[name=tool][value='remove']").click()
        click_board(browser, 0.0, 0.0)
        found = board_of(client, browser)
        assert len(found["points"]) == 4
        assert found["last"]["action"] == "forget"
        exact(found)
        assert "forget" in text(browser, "times")
        assert "a refit" in text(browser, "times")
        browser.find_element(By.ID, "check").click()
        said = until(lambda: text(browser, "said"), "the check")
        assert "4 points" in said
        assert complaints(browser) == []


def exact(found):
    """Check the decision values of a page against a model that is fitted from nothing."""
    X = np.array([[point["x"], point["y"]] for point in found["points"]])
    y = np.array([point["label"] for point in found["points"]])
    settings = found["settings"]
    peer = squaresvm.LSSVC(C=settings["C"], gamma=settings["gamma"]).fit(X, y)
    ticks = np.linspace(-1.04, 1.04, found["model"]["grid"])
    grid = np.array([(a, b) for b in ticks for a in ticks])
    np.testing.assert_allclose(found["model"]["decision"], peer.decision_function(grid), atol=1e-4)
    support = [point["support"] for point in found["points"]]
    np.testing.assert_allclose(support, np.abs(peer.dual_coef_[0]), rtol=1e-6)


def test_the_playground_by_keyboard_on_a_phone(tmp_path, browser):
    with serving(tmp_path) as client:
        show(browser, 390, dark=True)
        browser.get(f"http://127.0.0.1:{client.port}/play")
        until(lambda: "80 points" in text(browser, "figures"), "the first data set")
        browser.find_element(By.ID, "clear").click()
        until(lambda: "both colours" in text(browser, "figures"), "an empty board")
        canvas = browser.find_element(By.ID, "board")
        for keys in ("1", Keys.ARROW_RIGHT * 6 + "2", Keys.ARROW_UP * 6 + "2", " ", Keys.ARROW_LEFT, " "):
            before = requests_of(browser)
            canvas.send_keys(keys)
            if keys != " ":
                until(lambda before=before: requests_of(browser) > before, "the answer to a key")
        found = board_of(client, browser)
        places = [(round(p["x"], 2), round(p["y"], 2), p["label"]) for p in found["points"]]
        assert places == [(0.0, 0.0, -1), (0.3, 0.0, 1), (0.25, 0.3, 1)]
        exact(found)
        canvas.send_keys(Keys.DELETE)
        until(lambda: len(board_of(client, browser)["points"]) == 2, "a point to be removed")
        assert no_sideways_scrolling(browser)


def place_on_screen(browser, x, y):
    """Return where (x, y) of the square is in the window."""
    script = """
    const board = document.getElementById('board');
    board.scrollIntoView({block: 'center'});
    const box = board.getBoundingClientRect();
    return [box.left + 1 + board.clientWidth * (arguments[0] / 1.04 + 1) / 2,
            box.top + 1 + board.clientWidth * (1 - arguments[1] / 1.04) / 2];
    """
    return browser.execute_script(script, x, y)


def touch(browser, *places):
    """Touch the board at the first place, move over the others, and let go."""
    for number, (x, y) in enumerate(places):
        point = {"x": x, "y": y, "id": 1}
        kind = "touchMove" if number else "touchStart"
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_points_are_dragged_by_mouse_and_set_and_dragged_by_touch(tmp_path, browser):
    (tmp_path / "own.csv").write_text(
        "label,y,x\n" + "".join(f"{'ab'[x]},{y},{x}\n" for x in (0, 1) for y in (0, 1))
    )

    def near(x, y, label):
        return [
            point
            for point in board_of(client, browser)["points"]
            if abs(point["x"] - x) + abs(point["y"] - y) < 0.03 and point["label"] == label
        ]

    with serving(tmp_path) as client:
        show(browser, 1280)
        browser.get(f"http://127.0.0.1:{client.port}/play")
        until(lambda: "80 points" in text(browser, "figures"), "the first data set")
        browser.find_element(By.ID, "file").send_keys(str(tmp_path / "own.csv"))
        until(lambda: "4 points" in text(browser, "figures"), "the points of the file")
        assert near(-0.92, 0.92, -1)
        assert near(0.92, -0.92, 1)
        canvas = browser.find_element(By.ID, "board")
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        half = canvas.size["width"] / 2 / 1.04
        hold = ActionChains(browser).move_to_element_with_offset(
            canvas, round(-0.92 * half), round(-0.92 * half)
        )
        hold.click_and_hold().move_by_offset(30, 40).move_by_offset(30, 40).release().perform()
        x, y = -0.92 + 60 / half, 0.92 - 80 / half
        until(lambda: near(x, y, -1), "the point to be where it was dragged")
        found = board_of(client, browser)
        assert found["last"]["action"] == "forget and learn"
        exact(found)
        slider = browser.find_element(By.ID, "C")
        script = "arguments[0].value = 2; arguments[0].dispatchEvent(new Event('input'))"
        browser.execute_script(script, slider)
        until(lambda: board_of(client, browser)["settings"]["C"] == 100.0, "the slider to be heeded")
        exact(board_of(client, browser))

        show(browser, 390)
        touch(browser, place_on_screen(browser, 0.0, 0.1))
        until(lambda: near(0.0, 0.1, -1), "a point where the board was touched")
        steps = [place_on_screen(browser, 0.1 * step, 0.1) for step in range(4)]
        touch(browser, *steps)
        until(lambda: near(0.3, 0.1, -1), "the point to be where it was dragged")
        exact(board_of(client, browser))
        browser.find_element(By.CSS_SELECTOR, "input[name=tool][value='remove']").click()
        touch(browser, place_on_screen(browser, 0.3, 0.1))
        until(lambda: len(board_of(client, browser)["points"]) == 4, "the point to be removed")
        assert complaints(browser) == []


def no_sideways_scrolling(browser):
    script = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return browser.execute_script(script)


def test_a_row_is_forgotten_through_the_page_and_gone_from_file_and_journal(folder, browser):
    with serving(folder, save_seconds=0.1) as client:
        show(browser, 1280)
        browser.get(f"http://127.0.0.1:{client.port}/")
        until(lambda: "clouds" in text(browser, "models"), "the list of models")
        browser.find_element(By.LINK_TEXT, "clouds").click()
        until(lambda: "rows held" in text(browser, "figures"), "the page of the model")
        browser.find_element(By.ID, "ids").send_keys("p7, nobody" + Keys.ENTER)
        until(lambda: "nobody" in text(browser, "problem"), "a refusal")
        field = browser.find_element(By.ID, "ids")
        field.clear()
        field.send_keys("p7" + Keys.ENTER)
        until(lambda: "Forgot 1 row" in text(browser, "done"), "a receipt")
        change = text(browser, "change")
        assert "90" in change
        assert "89" in change
        assert client.get("/models/clouds").json["rows"] == 89
        until(lambda: client.get("/models/clouds/receipts").json["receipts"][0]["erased"], "the erasure")
        for path in folder.iterdir():
            content = path.read_bytes()
            assert b'"p7"' not in content
            assert "p7\0".encode("utf-32-le") not in content
        assert "p7" not in squaresvm.load(folder / "clouds.model").ids_.tolist()
        suspects = client.get("/models/clouds/report").json["suspects"]
        buttons = browser.find_elements(By.CSS_SELECTOR, "#suspects button.slim")
        assert len(buttons) == len(suspects) > 0
        buttons[0].click()
        until(lambda: client.get("/models/clouds").json["rows"] == 88, "a suspect to be forgotten")
        until(lambda: client.get("/models/clouds").json["unsaved"] == 0, "the file")
        assert suspects[0]["id"] not in squaresvm.load(folder / "clouds.model").ids_.tolist()
        browser.find_element(By.ID, "verify").click()
        until(lambda: "holds what it claims" in text(browser, "verdict"), "the verdict")
        errors = [line for line in complaints(browser) if "422" not in line]
        assert errors == []


def test_all_that_look_mislabelled_are_forgotten_where_two_share_an_id(tmp_path, clouds, browser):
    X, y = clouds
    wrong = np.isin(np.arange(90), [40, 41])  # The two rows of id 20.
    X, y = np.where(wrong[:, None], 2.5 * np.eye(3)[y], X), np.where(wrong, (y + 1) % 3, y)
    model = squaresvm.LSSVC(C=3.0, gamma=0.3).fit(X, y, ids=[i // 2 for i in range(90)])
    squaresvm.save(model, tmp_path / "pairs.model")
    with serving(tmp_path) as client:
        suspects = [row["id"] for row in client.get("/models/pairs/report").json["suspects"]]
        assert suspects.count(20) == 2
        browser.get(f"http://127.0.0.1:{client.port}/ui/pairs")
        until(lambda: "rows held" in text(browser, "figures"), "the page of the model")
        buttons = browser.find_elements(By.CSS_SELECTOR, "#suspects button")
        next(button for button in buttons if button.text.startswith("Forget all")).click()
        until(lambda: "Forgot" in text(browser, "done") or text(browser, "problem"), "an answer")
        assert text(browser, "problem") == ""
        assert client.get("/models/pairs").json["rows"] == 90 - 2 * len(set(suspects))


def test_a_page_asks_for_a_token(folder, browser):
    from squaresvm.serve.access import add_token

    token = add_token(folder / "tokens.json", "reader", ["inspect"])
    with serving(folder, token=token, tokens=folder / "tokens.json") as client:
        browser.get(f"http://127.0.0.1:{client.port}/")
        field = until(lambda: browser.find_elements(By.ID, "token"), "the form for a token")[0]
        field.send_keys(token + Keys.ENTER)
        until(lambda: "clouds" in text(browser, "models"), "the list of models")
        browser.execute_script("sessionStorage.clear()")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_pages_have_no_serious_accessibility_fault(folder, browser, width, dark):
    axe = pytest.importorskip("axe_core_python.selenium")
    with serving(folder) as client:
        show(browser, width, dark=dark)
        pages = {"/": "models", "/ui/clouds": "history", "/play": "figures", "/docs": "routes"}
        for path, id in pages.items():
            browser.get(f"http://127.0.0.1:{client.port}{path}")
            until(lambda id=id: text(browser, id) not in ("", "Loading ..."), path)
            faults = axe.Axe().run(browser)["violations"]
            serious = [fault for fault in faults if fault["impact"] in ("serious", "critical")]
            told = [(fault["id"], [node["html"][:120] for node in fault["nodes"]]) for fault in serious]
            assert told == [], path
            assert no_sideways_scrolling(browser), path


def test_large_values_stay_inside_their_picture_and_ids_on_one_line(tmp_path, browser):
    """Before, the ends of the axis were cut, and on a phone an id of three digits stood on three lines."""
    X = np.random.default_rng(0).normal(size=(150, 2))
    values = 1e6 * (X[:, 0] + X[:, 1] ** 2)
    squaresvm.save(squaresvm.LSSVR().fit(X, values), tmp_path / "values.model")
    script = """
    const frame = document.querySelector("#margins svg").getBoundingClientRect();
    const words = [...document.querySelectorAll("#margins svg text")];
    const cell = document.querySelector("#suspects tbody td");
    const boxes = words.map((word) => word.getBoundingClientRect());
    const isInside = boxes.every((box) => box.left >= frame.left - 1 && box.right <= frame.right + 1);
    const said = words.map((word) => word.textContent);
    return [said, isInside, cell.textContent, getComputedStyle(cell).whiteSpace];
    """
    with serving(tmp_path) as client:
        show(browser, 390)
        browser.get(f"http://127.0.0.1:{client.port}/ui/values")
        until(lambda: "rows held" in text(browser, "figures"), "the model")
        words, is_inside, name, white_space = browser.execute_script(script)
    assert is_inside
    assert "residual" in words
    assert name.isdigit()
    assert white_space == "nowrap"
