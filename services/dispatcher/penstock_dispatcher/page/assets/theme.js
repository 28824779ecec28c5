// Before anything is drawn: the colours that were chosen here, else those of the system.
const chosen = localStorage.getItem("penstock-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
