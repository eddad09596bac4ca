"""The look of the report.

Law: readable first: one column of text, numbers in even widths, colour only where it carries a
meaning (agrees, does not, not measured). No font and no picture comes from elsewhere.
"""

STYLE = """
:root{--ink:#1f2933;--soft:#52606d;--faint:#7b8794;--line:#e4e7eb;--paper:#fff;--ground:#f5f7fa;
--deep:#102a43;--yes:#0b7a53;--no:#b3261e;--open:#8a6d1b;--accent:#d6336c}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 Inter,"Segoe UI","Helvetica Neue",Arial,sans-serif}
.wrap,main{max-width:1080px;margin:0 auto;padding:0 24px}
header{background:linear-gradient(135deg,#102a43,#1d4e6b 70%,#2a6f7f);color:#fff;
padding:56px 0 64px}
.eyebrow{margin:0 0 8px;letter-spacing:.04em;color:#9fc5d6;font-size:14px}
h1{margin:0;font-size:44px;line-height:1.1;letter-spacing:-.02em;font-weight:700}
.lead{max-width:640px;margin:14px 0 30px;color:#d9e8ef;font-size:18px}
.tiles{display:flex;flex-wrap:wrap;gap:12px}
.tile{background:rgba(255,255,255,.09);border-radius:12px;padding:14px 20px;min-width:130px}
.tile b{display:block;font-size:30px;line-height:1.15;font-weight:650;
font-variant-numeric:tabular-nums}
.tile span{color:#c5dbe5;font-size:13px}
.tile.yes b{color:#7ee2b8}.tile.no b{color:#ffb4ab}.tile.open b{color:#ffe08a}
main{margin-top:-28px}
section{background:var(--paper);border-radius:16px;padding:30px 34px;margin:0 0 24px;
box-shadow:0 1px 2px rgba(16,42,67,.06),0 8px 24px rgba(16,42,67,.05)}
h2{margin:0 0 14px;font-size:22px;letter-spacing:-.01em}
h2.paper{margin:44px 4px 16px;font-size:20px;color:var(--deep);font-weight:600}
h3{margin:0 0 6px;font-size:23px;letter-spacing:-.01em;line-height:1.25}
h3 span{color:var(--accent);margin-right:8px}
h4{margin:0 0 8px;font-size:13px;color:var(--faint);font-weight:600;letter-spacing:.02em}
.states{color:var(--soft);max-width:820px;margin:0 0 20px}
.states b{color:var(--ink);font-weight:600;margin-right:6px}
.drawn{display:flex;flex-wrap:wrap;gap:12px 28px}
.drawn figure{margin:0 0 12px;max-width:100%}
.drawn svg{max-width:100%;height:auto;display:block;overflow:visible}
aside{background:var(--ground);border-radius:12px;padding:16px 18px;font-size:14px}
dl{margin:0;display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:8px 24px}
dt{color:var(--faint);font-size:12.5px}dd{margin:0}
dl div,td,p,li,h3{overflow-wrap:anywhere}
aside p{margin:12px 0 0;color:var(--faint)}
.scroll{overflow-x:auto;margin-top:16px}
table{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}
thead th{font-size:12.5px;color:var(--faint);font-weight:600;border-bottom:1px solid var(--line)}
th,td{text-align:left;padding:7px 14px 7px 0;vertical-align:top}
tr.first td,tr.first th{border-top:1px solid var(--line)}
.summary tr td{border-top:1px solid var(--line)}
.summary th[rowspan]{font-weight:600;padding-right:22px;white-space:nowrap}
.summary th small{display:block;color:var(--faint);font-weight:400}
small{color:var(--faint)}
a{color:#0b5c7a;text-decoration:none}a:hover{text-decoration:underline}
.mark{font-weight:700;font-size:17px;line-height:1.3;text-align:center;width:34px;padding-right:0}
.mark.yes{color:var(--yes)}.mark.no{color:var(--no)}.mark.open{color:var(--open)}
.tag{margin-left:8px;font-size:11.5px;color:#8a1c4a;background:#fde7ef;border-radius:20px;
padding:1px 9px;vertical-align:1px}
tr.reason td{padding-top:0;color:var(--soft);font-size:13.5px;padding-left:14px}
.notes{margin-top:18px;font-size:14.5px;color:var(--soft)}.notes p{margin:0 0 8px;max-width:820px}
details{margin-top:16px}summary{cursor:pointer;color:#0b5c7a;font-size:14.5px}
details h4{margin:16px 0 0;color:var(--soft)}
table.numbers td:not(:first-child),table.numbers th:not(:first-child){text-align:right}
table.numbers td{border-top:1px solid var(--line);white-space:nowrap}
footer{color:var(--faint);font-size:13.5px;padding:20px 0 50px}footer ul{padding-left:18px}
@media(max-width:820px){section{padding:22px 18px}
h1{font-size:34px}}
@media print{header{color:#000;background:none;padding:0}
section{box-shadow:none;break-inside:avoid}}
"""
